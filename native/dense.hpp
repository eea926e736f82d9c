// Small dense matrices: products and the Cholesky factor. Rows are padded to whole lanes unless stated otherwise.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace dconnet {

// The number of a row. Lists of rows may be as long as the data: these numbers take half the memory of size_t.
using Row = std::uint32_t;

// z = A v and g = Aᵀ w for any matrix A whose rows are padded with zeros to the length `stride`, as are v and g.
void multiply(const double* A, std::size_t rows, std::size_t stride, const double* v, double* z);
// The first of them for the listed rows alone; z has an entry for each of them.
void multiply_listed(const double* A, const Row* list, std::size_t rows, std::size_t stride, const double* v, double* z);
void multiply_transposed(const double* A, std::size_t rows, std::size_t stride, const double* w, double* g);

// Adds Aᵀ w to g.
void add_transposed(const double* A, std::size_t rows, std::size_t stride, const double* w, double* g);

// y = G v for a symmetric matrix of which only tiles of four by four on and above the diagonal are filled.
void multiply_symmetric(const double* G, std::size_t stride, const double* v, double* y);

// vᵀ G v for such a matrix.
double symmetric_form(const double* G, std::size_t stride, const double* v);

// C = A Bᵀ, where A has `rows` rows and B has `columns`; with `upper` only entries on and above the diagonal are sure
// to be filled. C has rows of length `stride` too.
void multiply_rows(const double* A, std::size_t rows, const double* B, std::size_t columns, std::size_t stride,
                   bool upper, double* C);

// (x, y) becomes (c x + s y, c y - s x).
void rotate(double c, double s, std::size_t count, double* x, double* y);

// Factorises the symmetric matrix whose upper triangle is the leading n by n part of G; the factor goes into the lower
// triangle. False if it is not positive definite. Any stride will do.
bool cholesky(double* G, std::size_t n, std::size_t stride);

// Solves L x = b in place with the factor of `cholesky`.
void cholesky_half_solve(const double* L, std::size_t n, std::size_t stride, double* x);

// Solves L Lᵀ x = b in place.
void cholesky_solve(const double* L, std::size_t n, std::size_t stride, double* x);

// The length of (x, y), also where their squares underflow.
inline double length_of(double x, double y) {
  const double square = x * x + y * y;
  return square >= std::numeric_limits<double>::min() ? std::sqrt(square) : std::hypot(x, y);
}

// |v - w|
inline double distance(const double* v, const double* w, std::size_t n) {
  double square = 0.0;
  for (std::size_t k = 0; k < n; ++k) square += (v[k] - w[k]) * (v[k] - w[k]);
  return std::sqrt(square);
}

double dot(const double* x, const double* y, std::size_t n);
// Of numbers of single precision, with sums in double precision.
double dot(const float* x, const float* y, std::size_t n);
// NaN if any entry is.
double max_abs(const double* x, std::size_t n);

}  // namespace dconnet
