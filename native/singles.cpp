#include "singles.hpp"

#include <algorithm>

#include "dispatch.hpp"

namespace dconnet {

namespace {

constexpr std::size_t kSums = 4;            // that do not wait for each other
constexpr std::size_t kSingleTerms = 1024;  // whose sum is single

DCONNET_INLINE float dot_of_some(const float* x, const float* y, std::size_t n) {
  Singles sums[kSums] = {}, a, b;
  std::size_t i = 0;
  for (; i + kSums * kSingles <= n; i += kSums * kSingles) {
#pragma GCC unroll 4
    for (std::size_t k = 0; k < kSums; ++k) {
      load(a, x + i + k * kSingles);
      load(b, y + i + k * kSingles);
      sums[k] += a * b;
    }
  }
  float total = sum_of((sums[0] + sums[1]) + (sums[2] + sums[3]));
  for (; i < n; ++i) total += x[i] * y[i];
  return total;
}

DCONNET_INLINE double dot_of_all(const float* x, const float* y, std::size_t n) {
  double total = 0.0;
  for (std::size_t i = 0; i < n; i += kSingleTerms) {
    total += static_cast<double>(dot_of_some(x + i, y + i, std::min(kSingleTerms, n - i)));
  }
  return total;
}

}  // namespace

double dot(const float* x, const float* y, std::size_t n) { return fastest<dot_of_all>(x, y, n); }

}  // namespace dconnet
