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

Newcomer::Newcomer(const Design& design, std::size_t n_outputs, Team& team)
    : rows_(design, team),
      n_outputs_(n_outputs),
      v_(design.stride()),
      best_(design.stride()),
      active_(design.rows()),
      pull_(design.rows()),
      output_(n_outputs),
      best_output_(n_outputs),
      products_(n_outputs + 1),
      sums_(rows_.leaves().count(), n_outputs + 1) {}

bool Newcomer::seek(const double* residual, double gamma, Random& random) {
  decrease_ = 0.0;
  for (int start = 0; start < kStarts; ++start) {
    for (std::size_t k = 0; k < rows_.design().columns(); ++k) v_[k] = random.normal();
    output_[0] = start % 2 == 0 ? 1.0 : -1.0;  // with several outputs the residual tells the direction
    climb(residual, gamma);
  }
  return decrease_ > 0.0;
}

void Newcomer::climb(const double* residual, double gamma) {
  const std::size_t columns = rows_.design().columns();
  double last = 0.0;
  for (int step = 0; step < kSteps; ++step) {
    const double length = std::sqrt(dot(v_.data(), v_.data(), columns));
    if (!(length > 0.0)) return;
    for (std::size_t k = 0; k < columns; ++k) v_[k] /= length;
    const double square = activate(residual);
    const double match = this->match();
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

// max(Qv, 0), its products with the residual, and its squared length.
double Newcomer::activate(const double* residual) {
  rows_.each([&](const Leaf& leaf, std::size_t i, std::size_t) {
    double* sums = sums_.clear(i);
    rows_.apply(leaf, v_.data(), active_.data() + leaf.first);
    for (std::size_t j = leaf.first; j < leaf.first + leaf.count; ++j) {
      active_[j] = std::max(active_[j], 0.0);
      for (std::size_t o = 0; o < n_outputs_; ++o) sums[o] += residual[j * n_outputs_ + o] * active_[j];
      sums[n_outputs_] += active_[j] * active_[j];
    }
  });
  sums_.merge(products_.data());
  return products_[n_outputs_];
}

// u'r'max(Qv, 0); with several outputs u becomes the best one, if there is one.
double Newcomer::match() {
  if (n_outputs_ == 1) return output_[0] * products_[0];
  const double length = std::sqrt(dot(products_.data(), products_.data(), n_outputs_));
  for (std::size_t o = 0; o < n_outputs_; ++o) output_[o] = length > 0.0 ? products_[o] / length : 0.0;
  return length;
}

// The gradient of the match in v.
void Newcomer::follow(const double* residual) {
  rows_.each([&](const Leaf& leaf, std::size_t, std::size_t) {
    for (std::size_t j = leaf.first; j < leaf.first + leaf.count; ++j) {
      double pull = 0.0;
      for (std::size_t o = 0; o < n_outputs_; ++o) pull += residual[j * n_outputs_ + o] * output_[o];
      pull_[j] = active_[j] > 0.0 ? pull : 0.0;
    }
  });
  rows_.apply_transposed(pull_.data(), v_.data());
}

}  // namespace dconnet
