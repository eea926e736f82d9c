#include "layout.hpp"

#include <algorithm>
#include <cmath>

namespace dconnet {

void Layout::pack(const double* V, const double* alpha, double* theta) const {
  std::fill(theta, theta + size(), 0.0);
  for (std::size_t unit = 0; unit < n_hidden; ++unit) {
    for (std::size_t k = 0; k < columns; ++k) theta[k * width + unit] = V[unit * columns + k];
    for (std::size_t o = 0; o < n_outputs; ++o) this->alpha(theta)[o * width + unit] = alpha[unit * n_outputs + o];
  }
}

void Layout::unpack(const double* theta, double* V, double* alpha) const {
  for (std::size_t unit = 0; unit < n_hidden; ++unit) {
    for (std::size_t k = 0; k < columns; ++k) V[unit * columns + k] = theta[k * width + unit];
    for (std::size_t o = 0; o < n_outputs; ++o) alpha[unit * n_outputs + o] = this->alpha(theta)[o * width + unit];
  }
}

double Layout::norm(const double* theta, std::size_t unit) const {
  double sum = 0.0;
  for (std::size_t k = 0; k < columns; ++k) sum += theta[k * width + unit] * theta[k * width + unit];
  return std::sqrt(sum);
}

double Layout::output_norm(const double* theta, std::size_t unit) const {
  const double* a = alpha(theta) + unit;
  if (n_outputs == 1) return std::fabs(*a);  // its square might underflow
  double sum = 0.0;
  for (std::size_t o = 0; o < n_outputs; ++o) sum += a[o * width] * a[o * width];
  return std::sqrt(sum);
}

void Layout::scale(double* theta, std::size_t unit, double hidden, double output) const {
  for (std::size_t k = 0; k < columns; ++k) theta[k * width + unit] *= hidden;
  for (std::size_t o = 0; o < n_outputs; ++o) alpha(theta)[o * width + unit] *= output;
}

void Layout::place(double* theta, std::size_t unit, const double* direction, const double* output,
                   double weight) const {
  const double root = std::sqrt(weight);
  for (std::size_t k = 0; k < columns; ++k) theta[k * width + unit] = root * direction[k];
  for (std::size_t o = 0; o < n_outputs; ++o) alpha(theta)[o * width + unit] = root * output[o];
}

void Layout::balance(double* theta) const {
  for (std::size_t unit = 0; unit < n_hidden; ++unit) {
    const double hidden = norm(theta, unit), output = output_norm(theta, unit);
    if (hidden == 0.0 || output == 0.0) continue;
    const double s = std::sqrt(output / hidden);
    if (std::isnormal(s) && std::isnormal(1.0 / s)) scale(theta, unit, s, 1.0 / s);
  }
}

}  // namespace dconnet
