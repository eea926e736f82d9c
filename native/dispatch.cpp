#include "dispatch.hpp"

#include <cstdlib>

#if DCONNET_HAS_AVX2_TWIN
#include <cpuid.h>
#endif

namespace dconnet {

namespace {

#if DCONNET_HAS_AVX2_TWIN
// Whether the operating system keeps the wide registers for each thread.
bool keeps_wide_registers() {
  constexpr unsigned kBoth = 0b110;  // halves of the registers
  unsigned low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & kBoth) == kBoth;
}

// __builtin_cpu_supports would need a runtime library that not every compiler brings.
Instructions best() {
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !keeps_wide_registers()) return Instructions::kPlain;
  const bool has_fma = c & bit_FMA;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX2)) return Instructions::kPlain;
  return has_fma ? Instructions::kFma : Instructions::kAvx2;
}
#else
Instructions best() { return Instructions::kPlain; }
#endif

Instructions allowed() {
  if (std::getenv("DCONNET_NO_AVX2") != nullptr) return Instructions::kPlain;
  const Instructions found = best();
  return found == Instructions::kFma && std::getenv("DCONNET_NO_FMA") != nullptr ? Instructions::kAvx2 : found;
}

}  // namespace

Instructions instructions = allowed();

}  // namespace dconnet
