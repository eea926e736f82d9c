// Four doubles that move together: the vector type of the hot loops.
//
// The compiler's own vector extension maps it to whatever the CPU has. Sums run over the four lanes in a fixed
// order, so a result does not depend on the instruction set.
#pragma once

#include <cstddef>
#include <cstring>

namespace dconnet {

constexpr std::size_t kLanes = 4;

typedef double Lanes __attribute__((vector_size(kLanes * sizeof(double))));

// Two and eight, for sums of which each lane has its own: how many lie side by side changes no bit of them.
typedef double Two __attribute__((vector_size(2 * sizeof(double))));
typedef double Eight __attribute__((vector_size(8 * sizeof(double))));

// Passing wide vectors between functions depends on the instruction set: everything here must be inlined.
#define DCONNET_INLINE __attribute__((always_inline)) inline
#define DCONNET_ALWAYS_INLINE __attribute__((always_inline))  // of a lambda

template <typename Vector>
DCONNET_INLINE void load(Vector& lanes, const double* from) {
  std::memcpy(&lanes, from, sizeof(Vector));
}

template <typename Vector>
DCONNET_INLINE void store(double* to, const Vector& lanes) {
  std::memcpy(to, &lanes, sizeof(Vector));
}

// In a fixed order.
DCONNET_INLINE double sum_of(const Lanes& lanes) { return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]); }

// The larger number. What is no number counts as the largest: a maximum that dropped it would call NaN small.
DCONNET_INLINE double larger(double x, double y) { return (x > y) | (x != x) ? x : y; }

// x = max(x, y), likewise.
DCONNET_INLINE void raise_to(Lanes& x, const Lanes& y) { x = ((x > y) | (x != x)) ? x : y; }

// x = max(x, |y|) for x that is not negative, likewise. Numbers of one sign have the order of their bits, of which those of
// NaN come last: one comparison will do.
DCONNET_INLINE void raise_to_size(Lanes& x, const Lanes& y) {
  typedef long long Bits __attribute__((vector_size(sizeof(Lanes))));
  Bits old, size;
  std::memcpy(&old, &x, sizeof(Bits));
  std::memcpy(&size, &y, sizeof(Bits));
  size &= 0x7fff'ffff'ffff'ffffLL;
  old = old > size ? old : size;
  std::memcpy(&x, &old, sizeof(Bits));
}

DCONNET_INLINE double largest_of(const Lanes& lanes) {
  return larger(larger(lanes[0], lanes[1]), larger(lanes[2], lanes[3]));
}

// Calls body with four entries of each vector at a time; behind the last ones there are zeros.
template <std::size_t Vectors, typename Body>
DCONNET_INLINE void in_fours(std::size_t n, const double* const (&vectors)[Vectors], const Body& body) {
  Lanes x[Vectors];
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::size_t k = 0; k < Vectors; ++k) load(x[k], vectors[k] + i);
    body(x);
  }
  if (i == n) return;
  for (std::size_t k = 0; k < Vectors; ++k) {
    x[k] = Lanes{};
    std::memcpy(&x[k], vectors[k] + i, (n - i) * sizeof(double));
  }
  body(x);
}

constexpr std::size_t round_up_to_lanes(std::size_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

}  // namespace dconnet
