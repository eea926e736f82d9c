// Eight numbers of single precision that move together.
#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>

#include "lanes.hpp"

namespace dconnet {

constexpr std::size_t kSingles = 8;

typedef float Singles __attribute__((vector_size(kSingles * sizeof(float))));

DCONNET_INLINE void load(Singles& singles, const float* from) { std::memcpy(&singles, from, sizeof(Singles)); }

DCONNET_INLINE void store(float* to, const Singles& singles) { std::memcpy(to, &singles, sizeof(Singles)); }

// In a fixed order.
DCONNET_INLINE float sum_of(const Singles& s) {
  return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

constexpr std::size_t round_up_to_singles(std::size_t n) { return (n + kSingles - 1) / kSingles * kSingles; }

// The vector type for numbers of either precision.
template <typename Real>
using Group = std::conditional_t<std::is_same_v<Real, float>, Singles, Lanes>;

template <typename Real>
constexpr std::size_t kGroup = sizeof(Group<Real>) / sizeof(Real);

// Sums of many single products are double.
double dot(const float* x, const float* y, std::size_t n);

}  // namespace dconnet
