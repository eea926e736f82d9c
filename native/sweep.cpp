#include "sweep.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace dconnet {

Sweep::Sweep(Design given, std::size_t n_hidden)
    : solver_(std::move(given)),
      neuron_(solver_),
      grams_(n_hidden, ActiveGram(solver_.design())),
      positive_(design().rows()),
      negative_(design().rows()),
      beta_g_(design().rows()),
      beta_h_(design().rows()) {}

std::size_t Sweep::run(const double* y, const double* alpha, double gamma, const std::size_t* order, Split split,
                       const Limits& limits, const std::function<bool()>& proceed, double* V, double* Z,
                       Tally& tally) {
  const std::size_t rows = design().rows(), columns = design().columns();
  sum_outputs(alpha, Z);
  const double size = objective_size(y, gamma, alpha, V);
  for (std::size_t visited = 0; visited < n_hidden(); ++visited) {
    if (!proceed()) return visited;
    const std::size_t unit = order[visited];
    double* v = V + unit * columns;
    double* z = Z + unit * rows;
    add_output(alpha[unit], z, -1.0);
    split_slopes(y, alpha[unit], split);
    const NeuronProblem problem{beta_g_.data(), beta_h_.data(), alpha[unit] * alpha[unit], gamma, size};
    neuron_.improve(problem, limits, v, z, grams_[unit], tally);
    add_output(alpha[unit], z, 1.0);
  }
  return n_hidden();
}

void Sweep::sum_outputs(const double* alpha, const double* Z) {
  std::fill(positive_.begin(), positive_.end(), 0.0);
  std::fill(negative_.begin(), negative_.end(), 0.0);
  for (std::size_t unit = 0; unit < n_hidden(); ++unit) add_output(alpha[unit], Z + unit * design().rows(), 1.0);
}

void Sweep::add_output(double alpha, const double* z, double sign) {
  std::vector<double>& sum = alpha > 0.0 ? positive_ : negative_;
  const double weight = sign * std::fabs(alpha);
  for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += weight * (z[j] > 0.0 ? z[j] : 0.0);
}

// Slopes of the convex and of the concave part, for the sums without the neuron itself. Rounding in the sums must not
// make a slope negative.
void Sweep::split_slopes(const double* y, double alpha, Split split) {
  const double twice = 2.0 * std::fabs(alpha);
  const std::vector<double>& same = alpha > 0.0 ? positive_ : negative_;
  const std::vector<double>& opposite = alpha > 0.0 ? negative_ : positive_;
  const double direction = alpha > 0.0 ? 1.0 : -1.0;
  for (std::size_t j = 0; j < beta_g_.size(); ++j) {
    const double target = direction * y[j];
    if (split == Split::kNet) {
      const double slope = twice * (same[j] - opposite[j] - target);
      beta_g_[j] = std::max(slope, 0.0);
      beta_h_[j] = std::max(-slope, 0.0);
    } else {
      beta_g_[j] = twice * (std::max(same[j], 0.0) + std::max(-target, 0.0));
      beta_h_[j] = twice * (std::max(opposite[j], 0.0) + std::max(target, 0.0));
    }
  }
}

double Sweep::objective_size(const double* y, double gamma, const double* alpha, const double* V) const {
  double squares = 0.0;
  for (std::size_t j = 0; j < positive_.size(); ++j) {
    const double residual = y[j] - (positive_[j] - negative_[j]);
    squares += residual * residual;
  }
  return squares + gamma * (dot(V, V, n_hidden() * design().columns()) + dot(alpha, alpha, n_hidden()));
}

}  // namespace dconnet
