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

// Hot functions are compiled twice, for plain x86-64 and for AVX2, and picked when the library is loaded.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(DCONNET_NO_CLONES)
#define DCONNET_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define DCONNET_CLONES
#endif

// Passing wide vectors between functions depends on the instruction set: everything here must be inlined.
#define DCONNET_INLINE __attribute__((always_inline)) inline

DCONNET_INLINE void load(Lanes& lanes, const double* from) { std::memcpy(&lanes, from, sizeof(Lanes)); }

DCONNET_INLINE void store(double* to, const Lanes& lanes) { std::memcpy(to, &lanes, sizeof(Lanes)); }

// In a fixed order.
DCONNET_INLINE double sum_of(const Lanes& lanes) { return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]); }

DCONNET_INLINE double sum_of(const double (&lanes)[kLanes]) { return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]); }

DCONNET_INLINE double larger(double x, double y) { return x > y ? x : y; }

DCONNET_INLINE double largest_of(const double (&lanes)[kLanes]) {
  return larger(larger(lanes[0], lanes[1]), larger(lanes[2], lanes[3]));
}

// Calls body(i, lane) for all i < n, in fours: totals that are kept one a lane grow together.
template <typename Body>
DCONNET_INLINE void in_lanes(std::size_t n, const Body& body) {
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) body(i + lane, lane);
  }
  for (; i < n; ++i) body(i, 0);
}

constexpr std::size_t round_up_to_lanes(std::size_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

}  // namespace dconnet
