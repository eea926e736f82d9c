#include "design.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lanes.hpp"

namespace dconnet {

namespace {

// Rows of Q that are worked on together: they stay in the cache while all tiles of the Gram matrix visit them.
constexpr std::size_t kRowBlock = 128;
constexpr std::size_t kTileRows = 4;
constexpr std::size_t kTileColumns = 2 * kLanes;

DCONNET_INLINE double sum_of(const Lanes& lanes) { return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]); }

// Adds the rows' contribution to a tile of 4 x 8 entries of G, kept in registers meanwhile.
DCONNET_INLINE void wide_tile(const double* Q, std::size_t stride, const double* w, const std::size_t* rows,
                              std::size_t count, std::size_t k, std::size_t l, double* G) {
  Lanes sum[kTileRows][2] = {};
  for (std::size_t i = 0; i < count; ++i) {
    const double* q = Q + rows[i] * stride;
    const double weight = w[i];
    Lanes left, right;
    load(left, q + l);
    load(right, q + l + kLanes);
    for (std::size_t t = 0; t < kTileRows; ++t) {
      const double scaled = weight * q[k + t];
      sum[t][0] += scaled * left;
      sum[t][1] += scaled * right;
    }
  }
  for (std::size_t t = 0; t < kTileRows; ++t) {
    for (std::size_t half = 0; half < 2; ++half) {
      double* to = G + (k + t) * stride + l + half * kLanes;
      Lanes old;
      load(old, to);
      store(to, old + sum[t][half]);
    }
  }
}

// The same for a tile of 4 x 4 at the right border.
DCONNET_INLINE void narrow_tile(const double* Q, std::size_t stride, const double* w, const std::size_t* rows,
                                std::size_t count, std::size_t k, std::size_t l, double* G) {
  Lanes sum[kTileRows] = {};
  for (std::size_t i = 0; i < count; ++i) {
    const double* q = Q + rows[i] * stride;
    const double weight = w[i];
    Lanes right;
    load(right, q + l);
    for (std::size_t t = 0; t < kTileRows; ++t) sum[t] += (weight * q[k + t]) * right;
  }
  for (std::size_t t = 0; t < kTileRows; ++t) {
    double* to = G + (k + t) * stride + l;
    Lanes old;
    load(old, to);
    store(to, old + sum[t]);
  }
}

DCONNET_CLONES void gram_upper(const double* Q, std::size_t stride, const double* w, const std::size_t* rows,
                               std::size_t count, double* G) {
  for (std::size_t first = 0; first < count; first += kRowBlock) {
    const std::size_t block = std::min(kRowBlock, count - first);
    for (std::size_t k = 0; k < stride; k += kTileRows) {
      std::size_t l = k;
      for (; l + kTileColumns <= stride; l += kTileColumns) wide_tile(Q, stride, w + first, rows + first, block, k, l, G);
      if (l < stride) narrow_tile(Q, stride, w + first, rows + first, block, k, l, G);
    }
  }
}

// The passes over Q for rows of a known number of lane groups: v or g then stay in registers.
template <std::size_t Groups>
DCONNET_INLINE void multiply_narrow(const double* Q, std::size_t rows, const double* v, double* z) {
  Lanes x[Groups];
  for (std::size_t k = 0; k < Groups; ++k) load(x[k], v + k * kLanes);
  for (std::size_t j = 0; j < rows; ++j) {
    Lanes sum = {};
    for (std::size_t k = 0; k < Groups; ++k) {
      Lanes q;
      load(q, Q + (j * Groups + k) * kLanes);
      sum += q * x[k];
    }
    z[j] = sum_of(sum);
  }
}

// The same for some of the rows.
template <std::size_t Groups>
DCONNET_INLINE void multiply_some_narrow(const double* Q, const std::size_t* rows, std::size_t count, const double* v,
                                         double* z) {
  Lanes x[Groups];
  for (std::size_t k = 0; k < Groups; ++k) load(x[k], v + k * kLanes);
  for (std::size_t i = 0; i < count; ++i) {
    Lanes sum = {};
    for (std::size_t k = 0; k < Groups; ++k) {
      Lanes q;
      load(q, Q + (rows[i] * Groups + k) * kLanes);
      sum += q * x[k];
    }
    z[i] = sum_of(sum);
  }
}

template <std::size_t Groups>
DCONNET_INLINE void multiply_transposed_narrow(const double* Q, std::size_t rows, const double* w, double* g) {
  Lanes sum[Groups] = {};
  for (std::size_t j = 0; j < rows; ++j) {
    for (std::size_t k = 0; k < Groups; ++k) {
      Lanes q;
      load(q, Q + (j * Groups + k) * kLanes);
      sum[k] += w[j] * q;
    }
  }
  for (std::size_t k = 0; k < Groups; ++k) store(g + k * kLanes, sum[k]);
}

// Wider rows: four at a time share the loads of v, or the loads and stores of g.
DCONNET_INLINE void multiply_wide(const double* Q, std::size_t rows, std::size_t stride, const double* v, double* z) {
  std::size_t j = 0;
  for (; j + 4 <= rows; j += 4) {
    Lanes sum[4] = {};
    for (std::size_t k = 0; k < stride; k += kLanes) {
      Lanes x;
      load(x, v + k);
      for (std::size_t i = 0; i < 4; ++i) {
        Lanes q;
        load(q, Q + (j + i) * stride + k);
        sum[i] += q * x;
      }
    }
    for (std::size_t i = 0; i < 4; ++i) z[j + i] = sum_of(sum[i]);
  }
  for (; j < rows; ++j) {
    Lanes sum = {};
    for (std::size_t k = 0; k < stride; k += kLanes) {
      Lanes q, x;
      load(q, Q + j * stride + k);
      load(x, v + k);
      sum += q * x;
    }
    z[j] = sum_of(sum);
  }
}

DCONNET_INLINE void multiply_some_wide(const double* Q, const std::size_t* rows, std::size_t count, std::size_t stride,
                                       const double* v, double* z) {
  for (std::size_t i = 0; i < count; ++i) {
    const double* row = Q + rows[i] * stride;
    Lanes sum = {};
    for (std::size_t k = 0; k < stride; k += kLanes) {
      Lanes q, x;
      load(q, row + k);
      load(x, v + k);
      sum += q * x;
    }
    z[i] = sum_of(sum);
  }
}

DCONNET_CLONES void multiply_some(const double* Q, const std::size_t* rows, std::size_t count, std::size_t stride,
                                  const double* v, double* z) {
  switch (stride / kLanes) {
    case 1: return multiply_some_narrow<1>(Q, rows, count, v, z);
    case 2: return multiply_some_narrow<2>(Q, rows, count, v, z);
    case 3: return multiply_some_narrow<3>(Q, rows, count, v, z);
    case 4: return multiply_some_narrow<4>(Q, rows, count, v, z);
    default: return multiply_some_wide(Q, rows, count, stride, v, z);
  }
}

DCONNET_INLINE void add_four_rows(const double* const* q, const double* w, std::size_t stride, double* g) {
  for (std::size_t k = 0; k < stride; k += kLanes) {
    Lanes sum, a, b, c, d;
    load(sum, g + k);
    load(a, q[0] + k);
    load(b, q[1] + k);
    load(c, q[2] + k);
    load(d, q[3] + k);
    store(g + k, sum + ((w[0] * a + w[1] * b) + (w[2] * c + w[3] * d)));
  }
}

// Rows of weight zero, of which there are many, are left out.
DCONNET_INLINE void multiply_transposed_wide(const double* Q, std::size_t rows, std::size_t stride, const double* w,
                                             double* g) {
  const double* waiting[4] = {Q, Q, Q, Q};
  double weight[4] = {};
  std::size_t count = 0;
  for (std::size_t k = 0; k < stride; ++k) g[k] = 0.0;
  for (std::size_t j = 0; j < rows; ++j) {
    if (w[j] == 0.0) continue;
    waiting[count] = Q + j * stride;
    weight[count] = w[j];
    if (++count == 4) add_four_rows(waiting, weight, stride, g), count = 0;
  }
  for (std::size_t i = count; i < 4; ++i) weight[i] = 0.0;
  if (count > 0) add_four_rows(waiting, weight, stride, g);
}

DCONNET_INLINE double dot_lanes(const double* x, const double* y, std::size_t n) {
  Lanes sum = {}, more = {};
  std::size_t j = 0;
  for (; j + 2 * kLanes <= n; j += 2 * kLanes) {
    Lanes a, b, c, d;
    load(a, x + j);
    load(b, y + j);
    load(c, x + j + kLanes);
    load(d, y + j + kLanes);
    sum += a * b;
    more += c * d;
  }
  double total = sum_of(sum + more);
  for (; j < n; ++j) total += x[j] * y[j];
  return total;
}

}  // namespace

DCONNET_CLONES void multiply(const double* Q, std::size_t rows, std::size_t stride, const double* v, double* z) {
  switch (stride / kLanes) {
    case 1: return multiply_narrow<1>(Q, rows, v, z);
    case 2: return multiply_narrow<2>(Q, rows, v, z);
    case 3: return multiply_narrow<3>(Q, rows, v, z);
    case 4: return multiply_narrow<4>(Q, rows, v, z);
    default: return multiply_wide(Q, rows, stride, v, z);
  }
}

DCONNET_CLONES void multiply_transposed(const double* Q, std::size_t rows, std::size_t stride, const double* w,
                                        double* g) {
  switch (stride / kLanes) {
    case 1: return multiply_transposed_narrow<1>(Q, rows, w, g);
    case 2: return multiply_transposed_narrow<2>(Q, rows, w, g);
    case 3: return multiply_transposed_narrow<3>(Q, rows, w, g);
    case 4: return multiply_transposed_narrow<4>(Q, rows, w, g);
    default: return multiply_transposed_wide(Q, rows, stride, w, g);
  }
}

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

void Design::apply(const double* v, double* z) const { multiply(data_, rows_, stride_, v, z); }

void Design::apply_to_rows(const std::size_t* rows, std::size_t count, const double* v, double* z) const {
  multiply_some(data_, rows, count, stride_, v, z);
}

void Design::apply_transposed(const double* w, double* g) const {
  multiply_transposed(data_, rows_, stride_, w, g);
}

void Design::add_row(std::size_t j, double weight, double* g) const {
  const double* q = row(j);
  for (std::size_t k = 0; k < columns_; ++k) g[k] += weight * q[k];
}

void Design::add_gram(const std::size_t* rows, const double* weights, std::size_t count, double* G) const {
  gram_upper(data_, stride_, weights, rows, count, G);
}

DCONNET_CLONES bool cholesky(double* G, std::size_t n, std::size_t stride) {
  for (std::size_t k = 0; k < n; ++k) {
    double* row = G + k * stride;
    for (std::size_t l = 0; l < k; ++l) {
      row[l] = (G[l * stride + k] - dot_lanes(row, G + l * stride, l)) / G[l * stride + l];
    }
    const double pivot = row[k] - dot_lanes(row, row, k);
    if (!(pivot > 0.0)) return false;  // also refuses NaN
    row[k] = std::sqrt(pivot);
  }
  return true;
}

DCONNET_CLONES void cholesky_half_solve(const double* L, std::size_t n, std::size_t stride, double* x) {
  for (std::size_t k = 0; k < n; ++k) x[k] = (x[k] - dot_lanes(L + k * stride, x, k)) / L[k * stride + k];
}

DCONNET_CLONES void cholesky_solve(const double* L, std::size_t n, std::size_t stride, double* x) {
  cholesky_half_solve(L, n, stride, x);
  for (std::size_t k = n; k-- > 0;) {
    x[k] /= L[k * stride + k];
    for (std::size_t l = 0; l < k; ++l) x[l] -= L[k * stride + l] * x[k];
  }
}

DCONNET_CLONES double dot(const double* x, const double* y, std::size_t n) { return dot_lanes(x, y, n); }

DCONNET_CLONES double max_abs(const double* x, std::size_t n) {
  double largest[2 * kLanes] = {};
  std::size_t j = 0;
  for (; j + 2 * kLanes <= n; j += 2 * kLanes) {
    for (std::size_t i = 0; i < 2 * kLanes; ++i) {
      const double size = std::fabs(x[j + i]);
      largest[i] = size > largest[i] ? size : largest[i];
    }
  }
  for (; j < n; ++j) largest[0] = std::max(largest[0], std::fabs(x[j]));
  return *std::max_element(largest, largest + 2 * kLanes);
}

}  // namespace dconnet
