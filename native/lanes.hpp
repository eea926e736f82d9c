// The vector types of the hot loops: four doubles (`Lanes`), or eight numbers of single precision (`Singles`).
//
// The compiler's own vector extension maps them to the instructions of the CPU. Sums run over the four lanes in a fixed
// order, so a result does not depend on the instruction set.
#pragma once

#include <cstddef>
#include <cstring>
#include <new>
#include <type_traits>
#include <vector>

namespace dconnet {

constexpr std::size_t kLanes = 4;

typedef double Lanes __attribute__((vector_size(kLanes * sizeof(double))));

// Two and eight, for sums of which each lane has its own: how many lie side by side changes no bit of them.
typedef double Two __attribute__((vector_size(2 * sizeof(double))));
typedef double Eight __attribute__((vector_size(8 * sizeof(double))));

// Passing wide vectors between functions depends on the instruction set: everything here must be inlined.
#define DCONNET_INLINE __attribute__((always_inline)) inline
#define DCONNET_ALWAYS_INLINE __attribute__((always_inline))  // of a lambda

template <typename Vector, typename Real>
DCONNET_INLINE void load(Vector& lanes, const Real* from) {
  std::memcpy(&lanes, from, sizeof(Vector));
}

template <typename Vector, typename Real>
DCONNET_INLINE void store(Real* to, const Vector& lanes) {
  std::memcpy(to, &lanes, sizeof(Vector));
}

// In a fixed order.
DCONNET_INLINE double sum_of(const Lanes& lanes) { return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]); }

// The larger number. What is no number counts as the largest: a maximum that dropped it would call NaN small.
DCONNET_INLINE double larger(double x, double y) { return ((x > y) | (x != x)) ? x : y; }

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

constexpr std::size_t kSingles = 8;

typedef float Singles __attribute__((vector_size(kSingles * sizeof(float))));

// As Two and Eight, for sums of which each lane has its own.
typedef float Sixteen __attribute__((vector_size(16 * sizeof(float))));

DCONNET_INLINE float sum_of(const Singles& s) {
  return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
}

constexpr std::size_t round_up_to_singles(std::size_t n) { return (n + kSingles - 1) / kSingles * kSingles; }

// The vector type for numbers of either precision.
template <typename Real>
using Group = std::conditional_t<std::is_same_v<Real, float>, Singles, Lanes>;

template <typename Real>
constexpr std::size_t kGroup = sizeof(Group<Real>) / sizeof(Real);

// The numbers of a vector, and how many it has.
template <typename Vector>
using NumberOf = std::decay_t<decltype(Vector{}[0])>;
template <typename Vector>
constexpr std::size_t kIn = sizeof(Vector) / sizeof(NumberOf<Vector>);

// Sums for a few rows by a few vectors, the kernel of all matrix products here: the loops over both are unrolled, so that the
// sums stay in registers.
template <typename Vector, std::size_t Rows, std::size_t Vectors>
struct Block {
  // Matrices have rows that are `step` apart.
  template <typename Real>
  DCONNET_INLINE void load(const Real* from, std::size_t step) {
    each([&](std::size_t i, std::size_t g) DCONNET_ALWAYS_INLINE { dconnet::load(sum[i][g], from + i * step + g * kIn<Vector>); });
  }
  template <typename Real>
  DCONNET_INLINE void store(Real* to, std::size_t step) const {
    each([&](std::size_t i, std::size_t g) DCONNET_ALWAYS_INLINE { dconnet::store(to + i * step + g * kIn<Vector>, sum[i][g]); });
  }
  // to = from + sums, which may be one and the same matrix.
  template <typename Real>
  DCONNET_INLINE void add_to(const Real* from, std::size_t from_step, Real* to, std::size_t step) const {
    each([&](std::size_t i, std::size_t g) DCONNET_ALWAYS_INLINE {
      Vector old;
      dconnet::load(old, from + i * from_step + g * kIn<Vector>);
      dconnet::store(to + i * step + g * kIn<Vector>, old + sum[i][g]);
    });
  }

  // Sets the sums to left(i) times the vectors at `right`.
  template <typename Left, typename Real>
  DCONNET_INLINE void set_products(const Left& left, const Real* right) {
    Vector b[Vectors];
    load_row(right, b);
    each([&](std::size_t i, std::size_t g) DCONNET_ALWAYS_INLINE { sum[i][g] = left(i) * b[g]; });
  }
  // Adds left(i, k) times the vectors at right(k), for k from `first` to `end`, one after the other.
  template <typename Left, typename Right>
  DCONNET_INLINE void add_products(std::size_t first, std::size_t end, const Left& left, const Right& right) {
    Vector b[Vectors];
    for (std::size_t k = first; k < end; ++k) {
      load_row(right(k), b);
#pragma GCC unroll 8
      for (std::size_t i = 0; i < Rows; ++i) {
        const auto a = left(i, k);
#pragma GCC unroll 8
        for (std::size_t g = 0; g < Vectors; ++g) sum[i][g] += a * b[g];
      }
    }
  }

  Vector sum[Rows][Vectors];

 private:
  template <typename Real>
  DCONNET_INLINE static void load_row(const Real* from, Vector (&row)[Vectors]) {
#pragma GCC unroll 8
    for (std::size_t g = 0; g < Vectors; ++g) dconnet::load(row[g], from + g * kIn<Vector>);
  }
  template <typename Body>
  DCONNET_INLINE static void each(const Body& body) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < Rows; ++i) {
#pragma GCC unroll 8
      for (std::size_t g = 0; g < Vectors; ++g) body(i, g);
    }
  }
};

// Vectors that begin with a line of the cache, so that no group lies across two of them.
template <typename Real>
struct AtLine {
  using value_type = Real;

  AtLine() = default;
  template <typename Other>
  AtLine(const AtLine<Other>&) {}

  Real* allocate(std::size_t n) { return static_cast<Real*>(::operator new(n * sizeof(Real), kLine)); }
  void deallocate(Real* memory, std::size_t) { ::operator delete(memory, kLine); }
  friend bool operator==(const AtLine&, const AtLine&) { return true; }
  friend bool operator!=(const AtLine&, const AtLine&) { return false; }

 private:
  static constexpr std::align_val_t kLine{64};
};

template <typename Real>
using Aligned = std::vector<Real, AtLine<Real>>;

}  // namespace dconnet
