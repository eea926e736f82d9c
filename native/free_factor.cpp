#include "free_factor.hpp"

#include <algorithm>
#include <cmath>

#include "dense.hpp"
#include "dispatch.hpp"
#include "lanes.hpp"

namespace dconnet {

namespace {

// What is left of a pivot, as a fraction of it, below which an update would lose too many digits.
constexpr double kSafePivot = 1e-6;

DCONNET_INLINE void subtract_multiple(double a, std::size_t count, const double* __restrict x, double* __restrict y) {
  for (std::size_t k = 0; k < count; ++k) y[k] -= a * x[k];
}

// Solves Uᵀ x = b in place.
void solve_transposed(const double* U, std::size_t size, std::size_t stride, double* x) {
  for (std::size_t k = 0; k < size; ++k) {
    const double* row = U + k * stride;
    x[k] /= row[k];
    fastest<subtract_multiple>(x[k], size - k - 1, row + k + 1, x + k + 1);
  }
}

}  // namespace

FreeFactor::FreeFactor(std::size_t columns, std::size_t stride)
    : stride_(stride),
      triangle_(stride * stride),
      hessian_(stride * stride),
      product_(stride * stride),
      work_(columns) {}

bool FreeFactor::factorise(const KinkBasis& basis, const double* G, double curvature, double gamma) {
  const std::size_t columns = work_.size();
  size_ = basis.free();
  for (std::size_t k = 0; k < columns; ++k) {
    for (std::size_t l = k; l < columns; ++l) {
      hessian_[k * stride_ + l] = hessian_[l * stride_ + k] = 2.0 * curvature * G[k * stride_ + l];
    }
    hessian_[k * stride_ + k] += 2.0 * gamma;
  }
  double* reduced = hessian_.data();
  if (size_ < columns) {
    multiply_rows(basis.directions(), size_, hessian_.data(), columns, stride_, false, product_.data());
    multiply_rows(basis.directions(), size_, product_.data(), size_, stride_, true, reduced);
  }
  known_ = cholesky(reduced, size_, stride_);
  for (std::size_t k = 0; k < size_; ++k) {
    for (std::size_t l = 0; l <= k; ++l) triangle_[l * stride_ + k] = reduced[k * stride_ + l];
  }
  return known_;
}

void FreeFactor::change(double weight, double* x) {
  if (!known_) return;
  const double root = std::sqrt(std::fabs(weight));
  for (std::size_t k = 0; k < size_; ++k) x[k] *= root;
  weight > 0.0 ? raise(x) : lower(x);
}

// The triangle with x as one more row is made a triangle again.
void FreeFactor::raise(double* x) {
  for (std::size_t k = 0; k < size_; ++k) {
    double* u = row(k);
    const double length = length_of(u[k], x[k]);
    rotate(u[k] / length, x[k] / length, size_ - k, u + k, x + k);
  }
}

// The rotations that would take x out of the triangle follow from Uᵀ a = x.
void FreeFactor::lower(double* x) {
  std::copy(x, x + size_, work_.begin());
  solve_transposed(triangle_.data(), size_, stride_, work_.data());
  const double rest = 1.0 - dot(work_.data(), work_.data(), size_);
  if (!(rest > kSafePivot)) return forget();
  double length = std::sqrt(rest);
  std::fill(x, x + size_, 0.0);
  for (std::size_t k = size_; k-- > 0;) {
    const double longer = length_of(length, work_[k]);
    rotate(length / longer, work_[k] / longer, size_ - k, x + k, row(k) + k);
    length = longer;
  }
}

// Turning two neighbouring directions fills one entry below the diagonal, which a rotation of two rows clears.
void FreeFactor::lose_direction(const std::vector<Rotation>& turns) {
  if (!known_) return;
  for (std::size_t i = 0; i + 1 < size_; ++i) {
    const double c = turns[i].cosine, s = turns[i].sine;
    if (s == 0.0) continue;
    row(i + 1)[i] = 0.0;
    for (std::size_t k = 0; k < i + 2; ++k) {
      const double left = row(k)[i], right = row(k)[i + 1];
      row(k)[i] = c * left - s * right;
      row(k)[i + 1] = c * right + s * left;
    }
    const double upper = row(i)[i], lower = row(i + 1)[i], length = length_of(upper, lower);
    rotate(upper / length, lower / length, size_ - i, row(i) + i, row(i + 1) + i);
  }
  --size_;
}

void FreeFactor::gain_direction(double* products, double curvature) {
  if (!known_) return;
  solve_transposed(triangle_.data(), size_, stride_, products);
  const double rest = curvature - dot(products, products, size_);
  if (!(rest > kSafePivot * curvature)) return forget();
  for (std::size_t k = 0; k < size_; ++k) row(k)[size_] = products[k];
  row(size_)[size_] = std::sqrt(rest);
  ++size_;
}

void FreeFactor::solve(double* x) const {
  solve_transposed(triangle_.data(), size_, stride_, x);
  for (std::size_t k = size_; k-- > 0;) {
    x[k] = (x[k] - dot(row(k) + k + 1, x + k + 1, size_ - k - 1)) / row(k)[k];
  }
}

}  // namespace dconnet
