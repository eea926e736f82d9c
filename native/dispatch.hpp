// Hot functions exist three times on x86-64: for every processor, for those with AVX2, and for those that can also
// multiply and add in one operation (FMA); a call takes the fastest one.
//
// A hot function is an inline function F of the usual kind; `fastest<F>(arguments)` calls it. The compilers' own
// clones of functions are no choice: they need a loader with indirect functions, which musl and macOS lack. The first
// two give the same numbers to the bit. A fused operation rounds once where the others round twice: with it, the last
// digits are others, but the same on all processors that have it.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__)
#define DCONNET_HAS_AVX2_TWIN 1
#define DCONNET_FOR_AVX2 __attribute__((target("avx2")))
#define DCONNET_FOR_FMA __attribute__((target("avx2,fma")))
#else
#define DCONNET_HAS_AVX2_TWIN 0
#define DCONNET_FOR_AVX2
#define DCONNET_FOR_FMA
#endif

namespace dconnet {

// What the processor is taken to have: all that it has, unless the environment variable DCONNET_NO_AVX2 or
// DCONNET_NO_FMA is set when the library is loaded. Tests change it.
enum class Instructions { kPlain, kAvx2, kFma };
extern Instructions instructions;

template <auto F, typename = decltype(F)>
struct Fastest;

template <auto F, typename Result, typename... Parameters>
struct Fastest<F, Result (*)(Parameters...)> {
  Result operator()(Parameters... parameters) const {
    if (DCONNET_HAS_AVX2_TWIN && instructions == Instructions::kFma) return for_fma(parameters...);
    if (DCONNET_HAS_AVX2_TWIN && instructions == Instructions::kAvx2) return for_avx2(parameters...);
    return for_all(parameters...);
  }

 private:
  DCONNET_FOR_FMA static Result for_fma(Parameters... parameters) { return F(parameters...); }
  DCONNET_FOR_AVX2 static Result for_avx2(Parameters... parameters) { return F(parameters...); }
  static Result for_all(Parameters... parameters) { return F(parameters...); }
};

template <auto F>
constexpr Fastest<F> fastest{};

}  // namespace dconnet
