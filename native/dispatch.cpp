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
bool has_avx2() {
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !keeps_wide_registers()) return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_AVX2);
}
#else
bool has_avx2() { return false; }
#endif

}  // namespace

bool use_avx2 = has_avx2() && std::getenv("DCONNET_NO_AVX2") == nullptr;

}  // namespace dconnet
