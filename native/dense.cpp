#include "dense.hpp"

#include <algorithm>
#include <cmath>

#include "dispatch.hpp"
#include "lanes.hpp"

namespace dconnet {

namespace {

// Rows that follow one another, and rows that a list names.
struct Successive {
  DCONNET_INLINE const double* operator()(std::size_t j) const { return Q + j * stride; }

  const double* Q;
  std::size_t stride;
};

struct Listed {
  DCONNET_INLINE const double* operator()(std::size_t j) const { return Q + std::size_t{rows[j]} * stride; }

  const double* Q;
  std::size_t stride;
  const Row* rows;
};

// Products with rows of a known number of lane groups: v stays in registers.
template <std::size_t Groups, typename Rows>
DCONNET_INLINE void multiply_narrow(const Rows& row, std::size_t rows, const double* v, double* z) {
  Lanes x[Groups];
  for (std::size_t k = 0; k < Groups; ++k) load(x[k], v + k * kLanes);
  for (std::size_t j = 0; j < rows; ++j) {
    Lanes sum = {};
    for (std::size_t k = 0; k < Groups; ++k) {
      Lanes q;
      load(q, row(j) + k * kLanes);
      sum += q * x[k];
    }
    z[j] = sum_of(sum);
  }
}

// Wider rows: several from row j on share the loads of v.
template <std::size_t Together, typename Rows>
DCONNET_INLINE void multiply_together(const Rows& row, std::size_t j, std::size_t stride, const double* v, double* z) {
  Lanes sums[Together] = {};
  for (std::size_t k = 0; k < stride; k += kLanes) {
    Lanes x;
    load(x, v + k);
    for (std::size_t i = 0; i < Together; ++i) {
      Lanes q;
      load(q, row(j + i) + k);
      sums[i] += q * x;
    }
  }
  for (std::size_t i = 0; i < Together; ++i) z[j + i] = sum_of(sums[i]);
}

// `rows_of(stride)` makes the rows, with a stride that the compiler knows where it is small.
template <typename RowsOf>
DCONNET_INLINE void multiply_any(const RowsOf& rows_of, std::size_t rows, std::size_t stride, const double* v, double* z) {
  switch (stride / kLanes) {
    case 1: return multiply_narrow<1>(rows_of(kLanes), rows, v, z);
    case 2: return multiply_narrow<2>(rows_of(2 * kLanes), rows, v, z);
    case 3: return multiply_narrow<3>(rows_of(3 * kLanes), rows, v, z);
    case 4: return multiply_narrow<4>(rows_of(4 * kLanes), rows, v, z);
  }
  constexpr std::size_t kTogether = 4;
  const auto row = rows_of(stride);
  std::size_t j = 0;
  for (; j + kTogether <= rows; j += kTogether) multiply_together<kTogether>(row, j, stride, v, z);
  for (; j < rows; ++j) multiply_together<1>(row, j, stride, v, z);
}

template <std::size_t Groups>
DCONNET_INLINE void add_transposed_narrow(const double* Q, std::size_t rows, const double* w, double* g) {
  Lanes sum[Groups];
  for (std::size_t k = 0; k < Groups; ++k) load(sum[k], g + k * kLanes);
  for (std::size_t j = 0; j < rows; ++j) {
    for (std::size_t k = 0; k < Groups; ++k) {
      Lanes q;
      load(q, Q + (j * Groups + k) * kLanes);
      sum[k] += w[j] * q;
    }
  }
  for (std::size_t k = 0; k < Groups; ++k) store(g + k * kLanes, sum[k]);
}

// Wider rows: four at a time share the loads and stores of g.
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
DCONNET_INLINE void add_transposed_wide(const double* Q, std::size_t rows, std::size_t stride, const double* w,
                                        double* g) {
  const double* waiting[4] = {Q, Q, Q, Q};
  double weight[4] = {};
  std::size_t count = 0;
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

constexpr std::size_t kSums = 4;            // that do not wait for each other
constexpr std::size_t kSingleTerms = 1024;  // whose sum is single

DCONNET_INLINE float dot_of_some(const float* x, const float* y, std::size_t n) {
  Singles sums[kSums] = {}, a, b;
  std::size_t i = 0;
  for (; i + kSums * kSingles <= n; i += kSums * kSingles) {
#pragma GCC unroll 4
    for (std::size_t k = 0; k < kSums; ++k) {
      load(a, x + i + k * kSingles);
      load(b, y + i + k * kSingles);
      sums[k] += a * b;
    }
  }
  float total = sum_of((sums[0] + sums[1]) + (sums[2] + sums[3]));
  for (; i < n; ++i) total += x[i] * y[i];
  return total;
}

DCONNET_INLINE double dot_of_all(const float* x, const float* y, std::size_t n) {
  double total = 0.0;
  for (std::size_t i = 0; i < n; i += kSingleTerms) {
    total += static_cast<double>(dot_of_some(x + i, y + i, std::min(kSingleTerms, n - i)));
  }
  return total;
}

// The products of four rows of A with two rows of B, both of `length` entries, a whole number of lanes.
DCONNET_INLINE void four_by_two(const double* const* a, const double* const* b, std::size_t length,
                                double (*products)[2]) {
  Lanes sum[4][2] = {};
  for (std::size_t k = 0; k < length; k += kLanes) {
    Lanes left, right[2];
    load(right[0], b[0] + k);
    load(right[1], b[1] + k);
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i) {
      load(left, a[i] + k);
      sum[i][0] += left * right[0];
      sum[i][1] += left * right[1];
    }
  }
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < 2; ++j) products[i][j] = sum_of(sum[i][j]);
  }
}

// Four rows of a matrix from row `first` on; in the place of those beyond its end stands the last one.
DCONNET_INLINE void four_rows(const double* A, std::size_t first, std::size_t rows, std::size_t stride,
                              const double** list) {
  for (std::size_t i = 0; i < 4; ++i) list[i] = A + std::min(first + i, rows - 1) * stride;
}

// Columns l to l + 3 of the factor in four rows from k > l + 3 on, all of which exist. The products with the columns
// before come first; the rest is a triangle of four by four, for the four rows at once.
DCONNET_INLINE void full_tile(double* G, std::size_t stride, std::size_t k, std::size_t l) {
  const double *rows[4], *columns[4];
  four_rows(G, k, k + 4, stride, rows);
  four_rows(G, l, l + 4, stride, columns);
  double known[2][4][2];
  four_by_two(rows, columns, l, known[0]);
  four_by_two(rows, columns + 2, l, known[1]);
  Lanes entries[4];  // of a column
#pragma GCC unroll 4
  for (std::size_t j = 0; j < 4; ++j) {
    const Lanes before = {known[j / 2][0][j % 2], known[j / 2][1][j % 2], known[j / 2][2][j % 2],
                          known[j / 2][3][j % 2]};
    load(entries[j], columns[j] + k);
    entries[j] -= before;
#pragma GCC unroll 4
    for (std::size_t s = 0; s < j; ++s) entries[j] -= columns[j][l + s] * entries[s];
    entries[j] /= columns[j][l + j];
  }
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < 4; ++j) G[(k + i) * stride + l + j] = entries[j][i];
  }
}

// The same for the rows that are left, one by one.
DCONNET_INLINE void factor_row(double* G, std::size_t stride, std::size_t k, std::size_t first) {
  double* row = G + k * stride;
  for (std::size_t l = first; l < k; ++l) {
    row[l] = (G[l * stride + k] - dot_lanes(row, G + l * stride, l)) / G[l * stride + l];
  }
}

// What the public functions of the same names call.
namespace hot {

DCONNET_INLINE void multiply(const double* Q, std::size_t rows, std::size_t stride, const double* v, double* z) {
  const auto rows_of = [&](std::size_t known_stride) DCONNET_ALWAYS_INLINE { return Successive{Q, known_stride}; };
  multiply_any(rows_of, rows, stride, v, z);
}

DCONNET_INLINE void multiply_listed(const double* Q, const Row* list, std::size_t rows, std::size_t stride, const double* v,
                                    double* z) {
  const auto rows_of = [&](std::size_t known_stride) DCONNET_ALWAYS_INLINE { return Listed{Q, known_stride, list}; };
  multiply_any(rows_of, rows, stride, v, z);
}

DCONNET_INLINE void add_transposed(const double* Q, std::size_t rows, std::size_t stride, const double* w, double* g) {
  switch (stride / kLanes) {
    case 1: return add_transposed_narrow<1>(Q, rows, w, g);
    case 2: return add_transposed_narrow<2>(Q, rows, w, g);
    case 3: return add_transposed_narrow<3>(Q, rows, w, g);
    case 4: return add_transposed_narrow<4>(Q, rows, w, g);
    default: return add_transposed_wide(Q, rows, stride, w, g);
  }
}

// Off the diagonal, a tile stands for two.
DCONNET_INLINE double symmetric_form(const double* G, std::size_t stride, const double* v) {
  Lanes once = {}, twice = {};
  for (std::size_t k = 0; k < stride; ++k) {
    const std::size_t diagonal = k / kLanes * kLanes;
    Lanes g, x, row = {};
    load(g, G + k * stride + diagonal);
    load(x, v + diagonal);
    once += v[k] * (g * x);
    for (std::size_t l = diagonal + kLanes; l < stride; l += kLanes) {
      load(g, G + k * stride + l);
      load(x, v + l);
      row += g * x;
    }
    twice += v[k] * row;
  }
  return sum_of(once) + 2.0 * sum_of(twice);
}

DCONNET_INLINE void multiply_symmetric(const double* G, std::size_t stride, const double* v, double* y) {
  std::fill(y, y + stride, 0.0);
  for (std::size_t k = 0; k < stride; k += kLanes) {
    Lanes here, sum[kLanes];
    load(here, v + k);
    for (std::size_t t = 0; t < kLanes; ++t) {
      load(sum[t], G + (k + t) * stride + k);
      sum[t] *= here;
    }
    for (std::size_t l = k + kLanes; l < stride; l += kLanes) {
      Lanes there, mirrored;
      load(there, v + l);
      load(mirrored, y + l);
      for (std::size_t t = 0; t < kLanes; ++t) {
        Lanes g;
        load(g, G + (k + t) * stride + l);
        sum[t] += g * there;
        mirrored += here[t] * g;
      }
      store(y + l, mirrored);
    }
    for (std::size_t t = 0; t < kLanes; ++t) y[k + t] += sum_of(sum[t]);
  }
}

DCONNET_INLINE void rotate(double c, double s, std::size_t count, double* __restrict x, double* __restrict y) {
  for (std::size_t k = 0; k < count; ++k) {
    const double first = c * x[k] + s * y[k];
    y[k] = c * y[k] - s * x[k];
    x[k] = first;
  }
}

DCONNET_INLINE void multiply_rows(const double* A, std::size_t rows, const double* B, std::size_t columns,
                                  std::size_t stride, bool upper, double* C) {
  for (std::size_t i = 0; i < rows; i += 4) {
    const double *a[4], *b[4];
    four_rows(A, i, rows, stride, a);
    for (std::size_t j = upper ? i : 0; j < columns; j += 2) {
      four_rows(B, j, columns, stride, b);
      double products[4][2];
      four_by_two(a, b, stride, products);
      for (std::size_t t = 0; t < std::min<std::size_t>(4, rows - i); ++t) {
        for (std::size_t s = 0; s < std::min<std::size_t>(2, columns - j); ++s) {
          C[(i + t) * stride + j + s] = products[t][s];
        }
      }
    }
  }
}

DCONNET_INLINE bool cholesky(double* G, std::size_t n, std::size_t stride) {
  for (std::size_t k = 0; k < n; ++k) {
    const bool in_tile = k / 4 * 4 + 4 <= n;
    if (in_tile && k % 4 == 0) {
      for (std::size_t l = 0; l < k; l += 4) full_tile(G, stride, k, l);
    }
    factor_row(G, stride, k, in_tile ? k / 4 * 4 : 0);
    double* row = G + k * stride;
    const double pivot = row[k] - dot_lanes(row, row, k);
    if (!(pivot > 0.0)) return false;  // also refuses NaN
    row[k] = std::sqrt(pivot);
  }
  return true;
}

DCONNET_INLINE void cholesky_half_solve(const double* L, std::size_t n, std::size_t stride, double* x) {
  for (std::size_t k = 0; k < n; ++k) x[k] = (x[k] - dot_lanes(L + k * stride, x, k)) / L[k * stride + k];
}

DCONNET_INLINE void cholesky_solve(const double* L, std::size_t n, std::size_t stride, double* x) {
  cholesky_half_solve(L, n, stride, x);
  for (std::size_t k = n; k-- > 0;) {
    x[k] /= L[k * stride + k];
    for (std::size_t l = 0; l < k; ++l) x[l] -= L[k * stride + l] * x[k];
  }
}

DCONNET_INLINE double max_abs(const double* x, std::size_t n) {
  Lanes largest = {}, other = {};
  std::size_t j = 0;
  for (; j + 2 * kLanes <= n; j += 2 * kLanes) {
    Lanes a, b;
    load(a, x + j);
    load(b, x + j + kLanes);
    raise_to_size(largest, a);
    raise_to_size(other, b);
  }
  raise_to_size(largest, other);
  double most = largest_of(largest);
  for (; j < n; ++j) most = larger(std::fabs(x[j]), most);
  return most;
}

}  // namespace hot

}  // namespace

void multiply(const double* Q, std::size_t rows, std::size_t stride, const double* v, double* z) {
  fastest<hot::multiply>(Q, rows, stride, v, z);
}

void multiply_listed(const double* Q, const Row* list, std::size_t rows, std::size_t stride, const double* v, double* z) {
  fastest<hot::multiply_listed>(Q, list, rows, stride, v, z);
}

void add_transposed(const double* Q, std::size_t rows, std::size_t stride, const double* w, double* g) {
  fastest<hot::add_transposed>(Q, rows, stride, w, g);
}

void multiply_transposed(const double* Q, std::size_t rows, std::size_t stride, const double* w, double* g) {
  std::fill_n(g, stride, 0.0);
  add_transposed(Q, rows, stride, w, g);
}

double symmetric_form(const double* G, std::size_t stride, const double* v) {
  return fastest<hot::symmetric_form>(G, stride, v);
}

void multiply_symmetric(const double* G, std::size_t stride, const double* v, double* y) {
  fastest<hot::multiply_symmetric>(G, stride, v, y);
}

void rotate(double c, double s, std::size_t count, double* x, double* y) { fastest<hot::rotate>(c, s, count, x, y); }

void multiply_rows(const double* A, std::size_t rows, const double* B, std::size_t columns, std::size_t stride,
                   bool upper, double* C) {
  fastest<hot::multiply_rows>(A, rows, B, columns, stride, upper, C);
}

bool cholesky(double* G, std::size_t n, std::size_t stride) { return fastest<hot::cholesky>(G, n, stride); }

void cholesky_half_solve(const double* L, std::size_t n, std::size_t stride, double* x) {
  fastest<hot::cholesky_half_solve>(L, n, stride, x);
}

void cholesky_solve(const double* L, std::size_t n, std::size_t stride, double* x) {
  fastest<hot::cholesky_solve>(L, n, stride, x);
}

double dot(const double* x, const double* y, std::size_t n) { return fastest<dot_lanes>(x, y, n); }

double dot(const float* x, const float* y, std::size_t n) { return fastest<dot_of_all>(x, y, n); }

double max_abs(const double* x, std::size_t n) { return fastest<hot::max_abs>(x, n); }

}  // namespace dconnet
