// Hot functions exist twice on x86-64, for every processor and for those with AVX2; a call takes the faster one.
//
// A hot function is an inline function F of the usual kind; `fastest<F>(arguments)` calls it. The compilers' own
// clones of functions are no choice: they need a loader with indirect functions, which musl and macOS lack. Nothing
// is contracted to fused operations, so both give the same numbers to the bit.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__)
#define DCONNET_HAS_AVX2_TWIN 1
#define DCONNET_FOR_AVX2 __attribute__((target("avx2")))
#else
#define DCONNET_HAS_AVX2_TWIN 0
#define DCONNET_FOR_AVX2
#endif

namespace dconnet {

// Whether the twins for AVX2 are called: where the processor has it, unless the environment variable DCONNET_NO_AVX2
// is set when the library is loaded. Tests change it.
extern bool use_avx2;

template <auto F, typename = decltype(F)>
struct Fastest;

template <auto F, typename Result, typename... Parameters>
struct Fastest<F, Result (*)(Parameters...)> {
  Result operator()(Parameters... parameters) const {
    return DCONNET_HAS_AVX2_TWIN && use_avx2 ? for_avx2(parameters...) : for_all(parameters...);
  }

 private:
  DCONNET_FOR_AVX2 static Result for_avx2(Parameters... parameters) { return F(parameters...); }
  static Result for_all(Parameters... parameters) { return F(parameters...); }
};

template <auto F>
constexpr Fastest<F> fastest{};

}  // namespace dconnet
