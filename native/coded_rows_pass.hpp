// Passes over coded rows. Weights of columns become tables with a row for each place, so that a row of the data meets
// a row or two of them for each feature, however many columns the feature has:
//
//   z = intercept + sum_f level[place_f] + share_f slope[place_f]
//
// All matrices have rows of `width` numbers, one for each neuron: a whole number of groups.
#pragma once

#include <algorithm>
#include <cstddef>

#include "coded_rows.hpp"
#include "singles.hpp"

namespace dconnet {

constexpr std::size_t kMostGroups = 8;  // of neurons whose sums fit into registers
constexpr std::size_t kBlock = 4;       // rows of a product that share the loads of its right side

// A matrix of which entry (i, k) is at[i * row_step + k * step].
struct Left {
  const float* at;
  std::size_t row_step, step;
};

// out += A B for some rows of A, and `count` rows of B. The sum over these is found first: the sum of such sums, for
// one part of the rows after the other, has small errors.
template <std::size_t Rows, std::size_t Groups, typename Real>
DCONNET_INLINE void add_block(const Left& A, std::size_t count, const Real* B, std::size_t width, Real* out) {
  Group<Real> sum[Rows][Groups] = {}, b[Groups];
  for (std::size_t k = 0; k < count; ++k) {
#pragma GCC unroll 8
    for (std::size_t g = 0; g < Groups; ++g) load(b[g], B + k * width + g * kGroup<Real>);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < Rows; ++i) {
      const Real a = static_cast<Real>(A.at[i * A.row_step + k * A.step]);
#pragma GCC unroll 8
      for (std::size_t g = 0; g < Groups; ++g) sum[i][g] += a * b[g];
    }
  }
#pragma GCC unroll 8
  for (std::size_t i = 0; i < Rows; ++i) {
#pragma GCC unroll 8
    for (std::size_t g = 0; g < Groups; ++g) {
      Real* to = out + i * width + g * kGroup<Real>;
      load(b[g], to);
      store(to, b[g] + sum[i][g]);
    }
  }
}

template <std::size_t Rows, typename Real>
DCONNET_INLINE void add_rows(const Left& A, std::size_t count, const Real* B, std::size_t width, Real* out) {
  std::size_t l = 0;
  for (; l + 2 * kGroup<Real> <= width; l += 2 * kGroup<Real>) add_block<Rows, 2>(A, count, B + l, width, out + l);
  if (l < width) add_block<Rows, 1>(A, count, B + l, width, out + l);
}

// out += A B, where A has so many rows and B has `count`.
template <typename Real>
DCONNET_INLINE void add_product(Left A, std::size_t rows, std::size_t count, const Real* B, std::size_t width, Real* out) {
  for (; rows >= kBlock; rows -= kBlock, A.at += kBlock * A.row_step, out += kBlock * width) {
    add_rows<kBlock>(A, count, B, width, out);
  }
  switch (rows) {
    case 1: return add_rows<1>(A, count, B, width, out);
    case 2: return add_rows<2>(A, count, B, width, out);
    case 3: return add_rows<3>(A, count, B, width, out);
    default: return;
  }
}

// Calls Step::run<groups> for runs of groups of neurons, as many at once as have sums in registers.
template <typename Real, std::size_t Most, typename Step, typename... Arguments>
DCONNET_INLINE void for_groups(std::size_t width, const Arguments&... arguments) {
  std::size_t first = 0;
  for (; first + Most * kGroup<Real> <= width; first += Most * kGroup<Real>) Step::template run<Most>(first, arguments...);
  switch ((width - first) / kGroup<Real>) {
    case 1: return Step::template run<1>(first, arguments...);
    case 2: return Step::template run<2>(first, arguments...);
    case 3: return Step::template run<3>(first, arguments...);
    case 4: return Step::template run<4>(first, arguments...);
    case 5: return Step::template run<5>(first, arguments...);
    case 6: return Step::template run<6>(first, arguments...);
    case 7: return Step::template run<7>(first, arguments...);
    default: return;
  }
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
template <typename Real>
struct AddCoded {
  template <std::size_t Groups>
  DCONNET_INLINE static void run(std::size_t first, const Codes& codes, std::size_t rows, const Tables<Real>& tables, Real* Z) {
    const std::uint32_t* place = codes.places;
    const float* share = codes.shares;
    for (std::size_t j = 0; j < rows; ++j, place += codes.features, share += codes.features) {
      Group<Real> sum[Groups], entry;
      Real* z = Z + j * tables.width + first;
#pragma GCC unroll 8
      for (std::size_t g = 0; g < Groups; ++g) load(sum[g], z + g * kGroup<Real>);
      std::size_t f = codes.linear;
      for (; f < codes.linear + codes.ramps; ++f) {
        const Real* slope = tables.slope + place[f] * tables.width + first;
        const Real* level = tables.level + place[f] * tables.width + first;
        const Real s = static_cast<Real>(share[f]);
#pragma GCC unroll 8
        for (std::size_t g = 0; g < Groups; ++g) {
          load(entry, slope + g * kGroup<Real>);
          sum[g] += s * entry;
          load(entry, level + g * kGroup<Real>);
          sum[g] += entry;
        }
      }
      for (; f < codes.features; ++f) {
        const Real* level = tables.level + place[f] * tables.width + first;
#pragma GCC unroll 8
        for (std::size_t g = 0; g < Groups; ++g) {
          load(entry, level + g * kGroup<Real>);
          sum[g] += entry;
        }
      }
#pragma GCC unroll 8
      for (std::size_t g = 0; g < Groups; ++g) store(z + g * kGroup<Real>, sum[g]);
    }
  }
};

// Preactivations Z (rows, width).
template <typename Real>
DCONNET_INLINE void forward(const Codes& codes, std::size_t rows, const Tables<Real>& tables, Real* Z) {
  for (std::size_t j = 0; j < rows; ++j) {
    for (std::size_t l = 0; l < tables.width; ++l) Z[j * tables.width + l] = tables.intercept[l];
  }
  add_product({codes.shares, codes.features, 1}, rows, codes.linear, tables.slope, tables.width, Z);
  if (codes.linear < codes.features) for_groups<Real, kMostGroups, AddCoded<Real>>(tables.width, codes, rows, tables, Z);
}

template <typename Vector>
DCONNET_INLINE void positive_part(Vector& part, const Vector& z) { part = z > 0 ? z : Vector{}; }

// Outputs of some rows, `step` apart, from their preactivations.
template <typename Real>
DCONNET_INLINE void combine(const Real* Z, const Real* alpha, std::size_t rows, std::size_t width, Real* outputs,
                            std::size_t step) {
  for (std::size_t j = 0; j < rows; ++j) {
    Group<Real> sum = {}, z, a;
    for (std::size_t l = 0; l < width; l += kGroup<Real>) {
      load(z, Z + j * width + l);
      load(a, alpha + l);
      positive_part(z, z);
      sum += a * z;
    }
    outputs[j * step] = sum_of(sum);
  }
}

}  // namespace dconnet
