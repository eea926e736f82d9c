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

Newcomer::Newcomer(const Design& design, std::size_t n_outputs)
    : design_(design),
      n_outputs_(n_outputs),
      v_(design.stride()),
      best_(design.stride()),
      active_(design.rows()),
      pull_(design.rows()),
      output_(n_outputs),
      best_output_(n_outputs),
      products_(n_outputs) {}

bool Newcomer::seek(const double* residual, double gamma, Random& random) {
  decrease_ = 0.0;
  for (int start = 0; start < kStarts; ++start) {
    for (std::size_t k = 0; k < design_.columns(); ++k) v_[k] = random.normal();
    output_[0] = start % 2 == 0 ? 1.0 : -1.0;  // with several outputs the residual tells the direction
    climb(residual, gamma);
  }
  return decrease_ > 0.0;
}

void Newcomer::climb(const double* residual, double gamma) {
  const std::size_t columns = design_.columns();
  double last = 0.0;
  for (int step = 0; step < kSteps; ++step) {
    const double length = std::sqrt(dot(v_.data(), v_.data(), columns));
    if (!(length > 0.0)) return;
    for (std::size_t k = 0; k < columns; ++k) v_[k] /= length;
    const double square = activate();
    const double match = this->match(residual);
    const double excess = match - gamma;
    if (excess > 0.0 && excess * excess > decrease_ * square) {
      decrease_ = excess * excess / square;
      weight_ = excess / square;
      best_ = v_;
      best_output_ = output_;
    }
    if (step > 2 && match <= last * (1.0 + kArrived)) return;
    last = match;
    follow(residual);
  }
}

// max(Qv, 0), and its squared length.
double Newcomer::activate() {
  design_.apply(v_.data(), active_.data());
  double square = 0.0;
  for (double& active : active_) {
    active = std::max(active, 0.0);
    square += active * active;
  }
  return square;
}

// u'r'max(Qv, 0); with several outputs u becomes the best one, if there is one.
double Newcomer::match(const double* residual) {
  std::fill(products_.begin(), products_.end(), 0.0);
  for (std::size_t j = 0; j < active_.size(); ++j) {
    for (std::size_t o = 0; o < n_outputs_; ++o) products_[o] += residual[j * n_outputs_ + o] * active_[j];
  }
  if (n_outputs_ == 1) return output_[0] * products_[0];
  const double length = std::sqrt(dot(products_.data(), products_.data(), n_outputs_));
  for (std::size_t o = 0; o < n_outputs_; ++o) output_[o] = length > 0.0 ? products_[o] / length : 0.0;
  return length;
}

// The gradient of the match in v.
void Newcomer::follow(const double* residual) {
  for (std::size_t j = 0; j < active_.size(); ++j) {
    double pull = 0.0;
    for (std::size_t o = 0; o < n_outputs_; ++o) pull += residual[j * n_outputs_ + o] * output_[o];
    pull_[j] = active_[j] > 0.0 ? pull : 0.0;
  }
  design_.apply_transposed(pull_.data(), v_.data());
}

}  // namespace dconnet
