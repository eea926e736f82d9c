#include "design.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "dispatch.hpp"
#include "lanes.hpp"

namespace dconnet {

namespace {

// Rows of Q that are worked on together: they stay in the cache while all tiles of the Gram matrix visit them.
constexpr std::size_t kRowBlock = 128;
constexpr std::size_t kTileRows = 4;

// Adds the rows' contribution to a tile of G, four rows by some vectors, kept in registers. Not a `Block`: with it, GCC needs 9 % more instructions.
template <typename Vector, std::size_t Vectors>
DCONNET_INLINE void add_tile(const double* Q, std::size_t stride, const double* w, const Row* rows, std::size_t count,
                             std::size_t k, std::size_t l, double* G) {
  constexpr std::size_t kWidth = sizeof(Vector) / sizeof(double);
  Vector sum[kTileRows][Vectors] = {};
  for (std::size_t i = 0; i < count; ++i) {
    const double* q = Q + std::size_t{rows[i]} * stride;
    const double weight = w[i];
    Vector right[Vectors];
    for (std::size_t n = 0; n < Vectors; ++n) load(right[n], q + l + n * kWidth);
    for (std::size_t t = 0; t < kTileRows; ++t) {
      const double scaled = weight * q[k + t];
      for (std::size_t n = 0; n < Vectors; ++n) sum[t][n] += scaled * right[n];
    }
  }
  for (std::size_t t = 0; t < kTileRows; ++t) {
    for (std::size_t n = 0; n < Vectors; ++n) {
      double* to = G + (k + t) * stride + l + n * kWidth;
      Vector old;
      load(old, to);
      store(to, old + sum[t][n]);
    }
  }
}

// Tiles of two vectors, and narrower ones at the right border. Every entry is a sum of its own, over the rows in their order:
// how wide the vectors are changes no bit of it.
template <typename Vector>
DCONNET_INLINE void gram_upper(const double* Q, std::size_t stride, const double* w, const Row* rows,
                               std::size_t count, double* G) {
  constexpr std::size_t kTileColumns = 2 * sizeof(Vector) / sizeof(double);
  for (std::size_t first = 0; first < count; first += kRowBlock) {
    const std::size_t block = std::min(kRowBlock, count - first);
    const auto add = [&](const auto& tile, std::size_t k, std::size_t l) DCONNET_ALWAYS_INLINE {
      tile(Q, stride, w + first, rows + first, block, k, l, G);
    };
    for (std::size_t k = 0; k < stride; k += kTileRows) {
      std::size_t l = k;
      for (; l + kTileColumns <= stride; l += kTileColumns) add(add_tile<Vector, 2>, k, l);
      for (; l + 2 * kLanes <= stride; l += 2 * kLanes) add(add_tile<Lanes, 2>, k, l);
      if (l < stride) add(add_tile<Lanes, 1>, k, l);
    }
  }
}

}  // namespace

Design::Design(std::size_t rows, std::size_t columns)
    : rows_(rows), columns_(columns), stride_(round_up_to_lanes(columns)) {}

Design::Design(const double* values, std::size_t rows, std::size_t columns) : Design(rows, columns) {
  values_.assign(rows * stride_, 0.0);
  data_ = values_.data();
  for (std::size_t j = 0; j < rows; ++j) {
    std::memcpy(values_.data() + j * stride_, values + j * columns, columns * sizeof(double));
  }
}

Design Design::view(const double* padded, std::size_t rows, std::size_t columns) {
  Design design(rows, columns);
  design.data_ = padded;
  return design;
}

Design Design::with_capacity(std::size_t rows, std::size_t columns) {
  Design design(rows, columns);
  design.values_.assign(rows * design.stride_, 0.0);
  design.data_ = design.values_.data();
  return design;
}

void Design::apply(const double* v, double* z) const { multiply(data_, rows_, stride_, v, z); }

void Design::apply_to_rows(const Row* rows, std::size_t count, const double* v, double* z) const {
  multiply_listed(data_, rows, count, stride_, v, z);
}

void Design::apply_transposed(const double* w, double* g) const {
  multiply_transposed(data_, rows_, stride_, w, g);
}

void Design::add_row(std::size_t j, double weight, double* g) const {
  const double* q = row(j);
  for (std::size_t k = 0; k < columns_; ++k) g[k] += weight * q[k];
}

void Design::add_gram(const Row* rows, const double* weights, std::size_t count, double* G) const {
  fastest<gram_upper<Lanes>, gram_upper<Lanes>, gram_upper<Eight>>(data_, stride_, weights, rows, count, G);
}

}  // namespace dconnet
