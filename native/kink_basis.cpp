#include "kink_basis.hpp"

#include <algorithm>
#include <cmath>

#include "lanes.hpp"

namespace dconnet {

namespace {

// A row of which less than this fraction is new depends on the rows that are held already.
constexpr double kIndependent = 1e-9;

// y += a x over whole lanes.
DCONNET_CLONES void add_multiple(double a, const double* x, std::size_t stride, double* y) {
  for (std::size_t k = 0; k < stride; ++k) y[k] += a * x[k];
}

// (x, y) becomes (c x + s y, c y - s x).
DCONNET_CLONES void rotate(double c, double s, std::size_t stride, double* x, double* y) {
  for (std::size_t k = 0; k < stride; ++k) {
    const double first = c * x[k] + s * y[k];
    y[k] = c * y[k] - s * x[k];
    x[k] = first;
  }
}

}  // namespace

KinkBasis::KinkBasis(const Design& design)
    : design_(design),
      basis_(design.columns() * design.stride()),
      triangle_(design.columns() * design.stride()),
      coordinates_(design.stride()),
      combination_(design.stride()) {
  rows_.reserve(design.columns());
}

void KinkBasis::clear() {
  rows_.clear();
  std::fill(basis_.begin(), basis_.end(), 0.0);
  for (std::size_t i = 0; i < design_.columns(); ++i) vector(i)[i] = 1.0;
}

bool KinkBasis::add(std::size_t row) {
  const std::size_t columns = design_.columns(), stride = design_.stride(), held = rows_.size();
  if (held == columns) return false;
  const double* q = design_.row(row);
  multiply(basis_.data(), columns, stride, q, coordinates_.data());
  const double fresh = dot(coordinates_.data() + held, coordinates_.data() + held, columns - held);
  if (!(fresh > kIndependent * kIndependent * dot(q, q, stride))) return false;
  reflect(held);
  std::copy(coordinates_.begin(), coordinates_.begin() + static_cast<std::ptrdiff_t>(held) + 1, column(held));
  rows_.push_back(row);
  return true;
}

// Turns N by a reflection, so that its first vector is the direction of what is new in the row.
void KinkBasis::reflect(std::size_t held) {
  const std::size_t columns = design_.columns(), stride = design_.stride();
  double* h = coordinates_.data() + held;
  const std::size_t count = columns - held;
  const double length = std::sqrt(dot(h, h, count));
  const double image = h[0] > 0.0 ? -length : length;
  h[0] -= image;
  const double half_square = -image * h[0];  // of the length of h
  if (half_square > 0.0 && count > 1) {
    multiply_transposed(vector(held), count, stride, h, combination_.data());
    for (std::size_t i = 0; i < count; ++i) {
      add_multiple(-h[i] / half_square, combination_.data(), stride, vector(held + i));
    }
    h[0] = image;
  } else {
    h[0] += image;
  }
}

// Without its column R is no triangle any more: rotations of neighbouring vectors of Y make it one, and set the last of
// them free.
void KinkBasis::remove(std::size_t row) {
  const std::size_t stride = design_.stride();
  const auto found = std::find(rows_.begin(), rows_.end(), row);
  const std::size_t first = static_cast<std::size_t>(found - rows_.begin()), held = rows_.size();
  rows_.erase(found);
  if (rows_.empty()) return clear();
  for (std::size_t i = first; i + 1 < held; ++i) {
    std::copy(column(i + 1), column(i + 1) + stride, column(i));
    for (std::size_t l = first; l < i; ++l) {
      // the rotations of the columns before
      const double x = column(i)[l], y = column(i)[l + 1];
      const double c = combination_[l], s = coordinates_[l];
      column(i)[l] = c * x + s * y;
      column(i)[l + 1] = c * y - s * x;
    }
    const double x = column(i)[i], y = column(i)[i + 1], length = std::sqrt(x * x + y * y);
    combination_[i] = x / length;
    coordinates_[i] = y / length;
    column(i)[i] = length;
    rotate(combination_[i], coordinates_[i], stride, vector(i), vector(i + 1));
  }
}

void KinkBasis::forces(const double* b, double* x) const {
  const std::size_t held = rows_.size();
  multiply(basis_.data(), held, design_.stride(), b, x);
  for (std::size_t i = held; i-- > 0;) {
    x[i] /= column(i)[i];
    for (std::size_t l = 0; l < i; ++l) x[l] -= column(i)[l] * x[i];
  }
}

}  // namespace dconnet
