// Random numbers that are the same on every machine: the standard fixes the generator, but not its distributions.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>

namespace dconnet {

class Random {
 public:
  explicit Random(std::uint64_t seed) : generator_(seed) {}

  // Uniform on [0, 1).
  double uniform() { return static_cast<double>(generator_() >> 11) * 0x1p-53; }

  std::size_t below(std::size_t n) { return static_cast<std::size_t>(uniform() * static_cast<double>(n)); }

  // Standard normal, by Marsaglia's polar method.
  double normal() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    double x, y, square;
    do {
      x = 2.0 * uniform() - 1.0;
      y = 2.0 * uniform() - 1.0;
      square = x * x + y * y;
    } while (square >= 1.0 || square == 0.0);
    const double factor = std::sqrt(-2.0 * std::log(square) / square);
    spare_ = y * factor;
    has_spare_ = true;
    return x * factor;
  }

 private:
  std::mt19937_64 generator_;
  double spare_ = 0.0;
  bool has_spare_ = false;
};

}  // namespace dconnet
