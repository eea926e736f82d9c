// Random numbers that are the same on every machine, and can be continued elsewhere: the standard fixes the generator, but
// neither its distributions nor a form of its state that could be checked.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace dconnet {

// The numbers of std::mt19937_64: the Mersenne twister of Matsumoto and Nishimura with words of 64 bits.
class Twister {
 public:
  static constexpr std::size_t kWords = 312;
  using Words = std::array<std::uint64_t, kWords>;

  explicit Twister(std::uint64_t seed) {
    words_[0] = seed;
    for (std::size_t i = 1; i < kWords; ++i) {
      words_[i] = 6364136223846793005u * (words_[i - 1] ^ (words_[i - 1] >> 62)) + i;
    }
  }

  std::uint64_t operator()() {
    if (next_ == kWords) renew();
    std::uint64_t x = words_[next_++];
    x ^= (x >> 29) & 0x5555555555555555u;
    x ^= (x << 17) & 0x71d67fffeda60000u;
    x ^= (x << 37) & 0xfff7eee000000000u;
    return x ^ (x >> 43);
  }

  const Words& words() const { return words_; }
  std::size_t next() const { return next_; }
  // Goes on from the words and the place of another twister. False if none can have had them.
  bool restore(const std::uint64_t* words, std::uint64_t next) {
    // From zeros it would never come away.
    if (next > kWords || std::all_of(words, words + kWords, [](std::uint64_t word) { return word == 0; })) return false;
    std::copy(words, words + kWords, words_.begin());
    next_ = static_cast<std::size_t>(next);
    return true;
  }

 private:
  void renew() {
    constexpr std::size_t kAhead = 156;
    constexpr std::uint64_t kUpper = 0xffffffff80000000u, kTwist = 0xb5026f5aa96619e9u;
    for (std::size_t i = 0; i < kWords; ++i) {
      const std::uint64_t mixed = (words_[i] & kUpper) | (words_[(i + 1) % kWords] & ~kUpper);
      words_[i] = words_[(i + kAhead) % kWords] ^ (mixed >> 1) ^ ((mixed & 1u) ? kTwist : 0u);
    }
    next_ = 0;
  }

  Words words_;
  std::size_t next_ = kWords;
};

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

  // All that the numbers to come depend on, in this many words.
  static constexpr std::size_t kStateSize = Twister::kWords + 3;
  void save(std::vector<std::uint64_t>& state) const {
    state.insert(state.end(), generator_.words().begin(), generator_.words().end());
    std::uint64_t spare;
    std::memcpy(&spare, &spare_, sizeof spare);
    state.insert(state.end(), {generator_.next(), has_spare_ ? 1u : 0u, spare});
  }
  // False, and nothing is changed, if no state can be like this.
  bool restore(const std::uint64_t* state) {
    double spare;
    std::memcpy(&spare, state + Twister::kWords + 2, sizeof spare);
    if (!std::isfinite(spare) || !generator_.restore(state, state[Twister::kWords])) return false;
    has_spare_ = state[Twister::kWords + 1] != 0;
    spare_ = spare;
    return true;
  }

 private:
  Twister generator_;
  double spare_ = 0.0;
  bool has_spare_ = false;
};

}  // namespace dconnet
