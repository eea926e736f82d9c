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

constexpr std::size_t round_up_to_lanes(std::size_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

}  // namespace dconnet
