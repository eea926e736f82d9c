#include "dispatch.hpp"

#include <algorithm>
#include <cstdlib>

#if DCONNET_HAS_AVX2_TWIN
#include <cpuid.h>
#endif

namespace dconnet {

namespace {

#if DCONNET_HAS_AVX2_TWIN
// Which parts of the registers the operating system keeps for each thread, bit by bit.
unsigned kept_registers() {
  unsigned low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

constexpr unsigned kFourDoubles = 0b110;       // both halves of the registers
constexpr unsigned kEightDoubles = 0b11100110;  // and masks, their upper halves, and sixteen more

// __builtin_cpu_supports would need a runtime library that not every compiler brings.
Instructions best() {
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return Instructions::kPlain;
  const unsigned kept = kept_registers();
  const bool has_fma = c & bit_FMA;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX2) || (kept & kFourDoubles) != kFourDoubles) {
    return Instructions::kPlain;
  }
  if (!has_fma) return Instructions::kAvx2;
  constexpr unsigned kAvx512 = bit_AVX512F | bit_AVX512VL | bit_AVX512DQ;
  const bool has_eight = (b & kAvx512) == kAvx512 && (kept & kEightDoubles) == kEightDoubles;
  return has_eight ? Instructions::kAvx512 : Instructions::kFma;
}
#else
Instructions best() { return Instructions::kPlain; }
#endif

Instructions allowed() {
  if (std::getenv("DCONNET_NO_AVX2") != nullptr) return Instructions::kPlain;
  if (std::getenv("DCONNET_NO_FMA") != nullptr) return std::min(best(), Instructions::kAvx2);
  if (std::getenv("DCONNET_NO_AVX512") != nullptr) return std::min(best(), Instructions::kFma);
  return best();
}

}  // namespace

Instructions instructions = allowed();

}  // namespace dconnet
