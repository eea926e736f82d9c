// Hot functions exist in several forms on x86-64: for every processor, for those with AVX2, for those that can also
// multiply and add in one operation (FMA), and some for those with vectors of eight doubles (AVX-512); a call takes the
// fastest one.
//
// A hot function is an inline function F of the usual kind; `fastest<F>(arguments)` calls it. A function that is a
// template of the vector type can be given for vectors of two, four and eight doubles: `fastest<F<Two>, F<Lanes>,
// F<Eight>>(arguments)`. The compilers' own clones of functions are no choice: they need a loader with indirect
// functions, which musl and macOS lack.
//
// The first two forms give the same numbers to the bit, and so do the last two. A fused operation rounds once where the
// others round twice: with it, the last digits are others, but the same on all processors that have it.
#pragma once

#include <type_traits>

#if defined(__x86_64__)
#define DCONNET_HAS_AVX2_TWIN 1
#define DCONNET_FOR_AVX2 __attribute__((target("avx2")))
#define DCONNET_FOR_FMA __attribute__((target("avx2,fma")))
#define DCONNET_FOR_AVX512 __attribute__((target("avx2,fma,avx512f,avx512vl,avx512dq")))
#else
#define DCONNET_HAS_AVX2_TWIN 0
#define DCONNET_FOR_AVX2
#define DCONNET_FOR_FMA
#define DCONNET_FOR_AVX512
#endif

namespace dconnet {

// What the processor is taken to have: all that it has, unless the environment variable DCONNET_NO_AVX2, DCONNET_NO_FMA
// or DCONNET_NO_AVX512 is set when the library is loaded. Each kind has what those before it have. Tests change it.
enum class Instructions { kPlain, kAvx2, kFma, kAvx512 };
extern Instructions instructions;

// Whether products and sums are fused: in the last two forms, and in all code for a processor that always can.
#if defined(__aarch64__) || defined(__FMA__)
inline bool fuses() { return true; }
#else
inline bool fuses() { return instructions >= Instructions::kFma; }
#endif

// For vectors of two, four and eight doubles; where the last two are the same, AVX-512 has nothing to offer.
template <auto Narrow, auto F, auto Wide, typename = decltype(F)>
struct Fastest;

template <auto Narrow, auto F, auto Wide, typename Result, typename... Parameters>
struct Fastest<Narrow, F, Wide, Result (*)(Parameters...)> {
  Result operator()(Parameters... parameters) const {
    if (!DCONNET_HAS_AVX2_TWIN || instructions == Instructions::kPlain) return for_all(parameters...);
    if (instructions == Instructions::kAvx2) return for_avx2(parameters...);
    if constexpr (kHasWide) {
      if (instructions == Instructions::kAvx512) return for_avx512(parameters...);
    }
    return for_fma(parameters...);
  }

 private:
  template <auto>
  struct Form {};
  static constexpr bool kHasWide = !std::is_same_v<Form<F>, Form<Wide>>;

  DCONNET_FOR_AVX512 static Result for_avx512(Parameters... parameters) { return Wide(parameters...); }
  DCONNET_FOR_FMA static Result for_fma(Parameters... parameters) { return F(parameters...); }
  DCONNET_FOR_AVX2 static Result for_avx2(Parameters... parameters) { return F(parameters...); }
  static Result for_all(Parameters... parameters) { return Narrow(parameters...); }
};

template <auto Narrow, auto F = Narrow, auto Wide = F>
constexpr Fastest<Narrow, F, Wide> fastest{};

}  // namespace dconnet
