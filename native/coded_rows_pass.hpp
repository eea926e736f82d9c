// Passes over coded rows. Weights of columns become tables with a row for each place, so that a row of the data meets
// a row or two of them for each feature, however many columns the feature has:
//
//   z = intercept + sum_f level[place_f] + share_f slope[place_f]
//
// All matrices have rows of `width` numbers, one for each neuron: a whole number of groups. Vectors that are wider than a
// group are used where the width is a whole number of them.
#pragma once

#include <algorithm>
#include <cstddef>

#include "coded_rows.hpp"
#include "lanes.hpp"

namespace dconnet {

constexpr std::size_t kMostGroups = 8;  // of neurons whose sums fit into registers
constexpr std::size_t kBlock = 4;       // rows of a product that share the loads of its right side

template <typename Vector>
constexpr bool kIsWide = sizeof(Vector) > sizeof(Group<NumberOf<Vector>>);

// A matrix of which entry (i, k) is at[i * row_step + k * step].
struct Left {
  const float* at;
  std::size_t row_step, step;
};

// Where a product goes, and the rows of what it is added to, which may be one and the same.
template <typename Real>
struct Sum {
  DCONNET_INLINE Sum at(std::size_t first) const { return {from + first, step, to + first, width}; }

  const Real* from;
  std::size_t step;
  Real* to;
  std::size_t width;
};

// A B is added for some rows of A, and `count` rows of B. It is found first: where the rows come in parts, one after
// the other, the sum of their sums has small errors.
template <typename Vector, std::size_t Rows, std::size_t Groups, typename Real>
DCONNET_INLINE void add_block(const Left& A, std::size_t count, const Real* B, const Sum<Real>& sum) {
  Block<Vector, Rows, Groups> products = {};
  products.add_products(0, count,
                        [&](std::size_t i, std::size_t k) DCONNET_ALWAYS_INLINE {
                          return static_cast<Real>(A.at[i * A.row_step + k * A.step]);
                        },
                        [&](std::size_t k) DCONNET_ALWAYS_INLINE { return B + k * sum.width; });
  products.add_to(sum.from, sum.step, sum.to, sum.width);
}

template <typename Vector, std::size_t Rows, typename Real>
DCONNET_INLINE void add_rows(const Left& A, std::size_t count, const Real* B, const Sum<Real>& sum) {
  constexpr std::size_t size = kIn<Vector>;
  std::size_t l = 0;
  for (; l + 3 * size < sum.width; l += 2 * size) add_block<Vector, Rows, 2>(A, count, B + l, sum.at(l));
  switch ((sum.width - l) / size) {
    case 1: return add_block<Vector, Rows, 1>(A, count, B + l, sum.at(l));
    case 2: return add_block<Vector, Rows, 2>(A, count, B + l, sum.at(l));
    case 3: return add_block<Vector, Rows, 3>(A, count, B + l, sum.at(l));
    default: return;
  }
}

// A B is added, where A has `rows` rows and B has `count`.
template <typename Vector, typename Real = NumberOf<Vector>>
DCONNET_INLINE void add_product(Left A, std::size_t rows, std::size_t count, const Real* B, Sum<Real> sum) {
  if constexpr (kIsWide<Vector>) {
    if (sum.width % kIn<Vector> != 0) return add_product<Group<Real>>(A, rows, count, B, sum);
  }
  for (; rows >= kBlock; rows -= kBlock) {
    add_rows<Vector, kBlock>(A, count, B, sum);
    A.at += kBlock * A.row_step;
    sum.from += kBlock * sum.step;
    sum.to += kBlock * sum.width;
  }
  switch (rows) {
    case 1: return add_rows<Vector, 1>(A, count, B, sum);
    case 2: return add_rows<Vector, 2>(A, count, B, sum);
    case 3: return add_rows<Vector, 3>(A, count, B, sum);
    default: return;
  }
}

// Calls Step::run<Vector, groups> for the last groups of neurons, at most `Most`.
template <typename Vector, std::size_t Most, typename Step, typename... Arguments>
DCONNET_INLINE void for_last_groups(std::size_t groups, std::size_t first, const Arguments&... arguments) {
  if constexpr (Most > 0) {
    if (groups == Most) return Step::template run<Vector, Most>(first, arguments...);
    for_last_groups<Vector, Most - 1, Step>(groups, first, arguments...);
  }
}

// Calls it for runs of groups of neurons, as many at once as have sums in registers.
template <typename Vector, std::size_t Most, typename Step, typename... Arguments>
DCONNET_INLINE void for_groups(std::size_t width, const Arguments&... arguments) {
  if constexpr (kIsWide<Vector>) {
    if (width % kIn<Vector> != 0) return for_groups<Group<NumberOf<Vector>>, Most, Step>(width, arguments...);
  }
  std::size_t first = 0;
  for (; first + Most * kIn<Vector> <= width; first += Most * kIn<Vector>) {
    Step::template run<Vector, Most>(first, arguments...);
  }
  for_last_groups<Vector, Most - 1, Step>((width - first) / kIn<Vector>, first, arguments...);
}

// The codes of rows that follow one another.
struct Codes {
  Codes(const CodedRows& rows)
      : features(rows.features.size()),
        linear(rows.count(CodedFeature::Kind::kLinear)),
        ramps(rows.count(CodedFeature::Kind::kRamps)),
        places(rows.places),
        shares(rows.shares) {}

  Codes from(std::size_t row) const {
    Codes later = *this;
    later.places += row * features;
    later.shares += row * features;
    return later;
  }

  std::size_t features, linear, ramps;  // all, the first ones, and those after them; the rest are categories
  const std::uint32_t* places;
  const float* shares;
};

template <typename Real>
struct Tables {
  const Real *level, *slope, *intercept;
  std::size_t width;
};

// Writes level and slope (places, width) for the weights U (columns, width) of the columns of all features.
template <typename Real>
void tabulate(const CodedRows& rows, const Real* U, std::size_t width, Real* level, Real* slope) {
  for (const CodedFeature& feature : rows.features) {
    const std::size_t size = feature.columns * width;
    if (feature.kind == CodedFeature::Kind::kCategory) {
      std::copy(U, U + size, level);
      std::fill(level + size, level + feature.places * width, Real{0});
    } else {
      std::copy(U, U + size, slope);
      std::fill(level, level + width, Real{0});
      for (std::size_t i = width; i < size; ++i) level[i] = level[i - width] + U[i - width];
    }
    U += size;
    level += feature.places * width;
    slope += feature.places * width;
  }
}

// Adds ramps and categories to the preactivations Z (rows, width).
struct AddCoded {
  template <typename Vector, std::size_t Groups, typename Real>
  DCONNET_INLINE static void run(std::size_t first, const Codes& codes, std::size_t rows, const Tables<Real>& tables, Real* Z) {
    const std::uint32_t* place = codes.places;
    const float* share = codes.shares;
    for (std::size_t j = 0; j < rows; ++j, place += codes.features, share += codes.features) {
      Vector sum[Groups], entry;
      Real* z = Z + j * tables.width + first;
#pragma GCC unroll 8
      for (std::size_t g = 0; g < Groups; ++g) load(sum[g], z + g * kIn<Vector>);
      std::size_t f = codes.linear;
      for (; f < codes.linear + codes.ramps; ++f) {
        const Real* slope = tables.slope + place[f] * tables.width + first;
        const Real* level = tables.level + place[f] * tables.width + first;
        const Real s = static_cast<Real>(share[f]);
#pragma GCC unroll 8
        for (std::size_t g = 0; g < Groups; ++g) {
          load(entry, slope + g * kIn<Vector>);
          sum[g] += s * entry;
          load(entry, level + g * kIn<Vector>);
          sum[g] += entry;
        }
      }
      for (; f < codes.features; ++f) {
        const Real* level = tables.level + place[f] * tables.width + first;
#pragma GCC unroll 8
        for (std::size_t g = 0; g < Groups; ++g) {
          load(entry, level + g * kIn<Vector>);
          sum[g] += entry;
        }
      }
#pragma GCC unroll 8
      for (std::size_t g = 0; g < Groups; ++g) store(z + g * kIn<Vector>, sum[g]);
    }
  }
};

// Preactivations Z (rows, width).
template <typename Vector, typename Real = NumberOf<Vector>>
DCONNET_INLINE void forward(const Codes& codes, std::size_t rows, const Tables<Real>& tables, Real* Z) {
  add_product<Vector>({codes.shares, codes.features, 1}, rows, codes.linear, tables.slope,
                    {tables.intercept, 0, Z, tables.width});
  if (codes.linear < codes.features) for_groups<Vector, kMostGroups, AddCoded>(tables.width, codes, rows, tables, Z);
}

template <typename Vector>
DCONNET_INLINE void positive_part(Vector& part, const Vector& z) { part = z > 0 ? z : Vector{}; }

template <std::size_t Rows, typename Real>
DCONNET_INLINE void combine_rows(const Real* Z, const Real* alpha, std::size_t width, Real* outputs, std::size_t step) {
  Group<Real> sum[Rows] = {}, z, a;
  for (std::size_t l = 0; l < width; l += kGroup<Real>) {
    load(a, alpha + l);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < Rows; ++i) {
      load(z, Z + i * width + l);
      positive_part(z, z);
      sum[i] += a * z;
    }
  }
#pragma GCC unroll 8
  for (std::size_t i = 0; i < Rows; ++i) outputs[i * step] = sum_of(sum[i]);
}

// Outputs of some rows, `step` apart, from their preactivations.
template <typename Real>
DCONNET_INLINE void combine(const Real* Z, const Real* alpha, std::size_t rows, std::size_t width, Real* outputs,
                            std::size_t step) {
  std::size_t j = 0;
  for (; j + kBlock <= rows; j += kBlock) combine_rows<kBlock>(Z + j * width, alpha, width, outputs + j * step, step);
  for (; j < rows; ++j) combine_rows<1>(Z + j * width, alpha, width, outputs + j * step, step);
}

}  // namespace dconnet
