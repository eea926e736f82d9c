#include "newcomer.hpp"

#include <algorithm>
#include <cmath>

namespace dconnet {

namespace {

constexpr int kStarts = 8;
constexpr int kSteps = 10;
// A climb that gains less than this share in a step has arrived.
constexpr double kArrived = 1e-3;

}  // namespace

Newcomer::Newcomer(const Design& design)
    : design_(design), v_(design.stride()), best_(design.stride()), z_(design.rows()), pull_(design.rows()) {}

bool Newcomer::seek(const double* residual, double gamma, Random& random) {
  decrease_ = 0.0;
  for (int start = 0; start < kStarts; ++start) {
    for (std::size_t k = 0; k < design_.columns(); ++k) v_[k] = random.normal();
    climb(residual, gamma, start % 2 == 0 ? 1.0 : -1.0);
  }
  return decrease_ > 0.0;
}

void Newcomer::climb(const double* residual, double gamma, double sign) {
  const std::size_t rows = design_.rows(), columns = design_.columns();
  double last = 0.0;
  for (int step = 0; step < kSteps; ++step) {
    const double length = std::sqrt(dot(v_.data(), v_.data(), columns));
    if (!(length > 0.0)) return;
    for (std::size_t k = 0; k < columns; ++k) v_[k] /= length;
    design_.apply(v_.data(), z_.data());
    double match = 0.0, square = 0.0;
    for (std::size_t j = 0; j < rows; ++j) {
      const double output = std::max(z_[j], 0.0);
      match += sign * residual[j] * output;
      square += output * output;
      pull_[j] = z_[j] > 0.0 ? sign * residual[j] : 0.0;
    }
    const double excess = match - gamma;
    if (excess > 0.0 && excess * excess > decrease_ * square) {
      decrease_ = excess * excess / square;
      weight_ = excess / square;
      sign_ = sign;
      std::copy(v_.begin(), v_.end(), best_.begin());
    }
    if (step > 2 && match <= last * (1.0 + kArrived)) return;
    last = match;
    design_.apply_transposed(pull_.data(), v_.data());
  }
}

}  // namespace dconnet
