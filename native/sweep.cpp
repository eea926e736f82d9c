#include "sweep.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace dconnet {

namespace {

// What the slopes of all outputs are added to: it leaves every bit of the first one, even the sign of a zero.
constexpr double kEmptySum = -0.0;

// One output of a network, as seen from a neuron: what the neurons add to it whose weights have the sign of its own,
// and what those add whose weights do not.
struct OutputView {
  const double* y;         // rows
  const double* same;      // rows
  const double* opposite;  // rows
  double direction;        // the sign of the neuron's weight
  double twice;            // its absolute value, times two
};

void add_net_slopes(const OutputView& output, std::size_t rows, double* slopes) {
  for (std::size_t j = 0; j < rows; ++j) {
    slopes[j] += output.twice * (output.same[j] - output.opposite[j] - output.direction * output.y[j]);
  }
}

// Rounding in the sums must not make a slope negative.
void add_paper_slopes(const OutputView& output, std::size_t rows, double* beta_g, double* beta_h) {
  for (std::size_t j = 0; j < rows; ++j) {
    const double target = output.direction * output.y[j];
    beta_g[j] += output.twice * (std::max(output.same[j], 0.0) + std::max(-target, 0.0));
    beta_h[j] += output.twice * (std::max(output.opposite[j], 0.0) + std::max(target, 0.0));
  }
}

double square(const double* x, std::size_t n) {
  double sum = 0.0;
  for (std::size_t i = 0; i < n; ++i) sum += x[i] * x[i];
  return sum;
}

}  // namespace

Sweep::Sweep(Design given, std::size_t n_hidden, std::size_t n_outputs)
    : n_outputs_(n_outputs),
      solver_(std::move(given)),
      neuron_(solver_),
      grams_(n_hidden, ActiveGram(solver_.design())),
      targets_(n_outputs > 1 ? n_outputs * design().rows() : 0),
      positive_(n_outputs * design().rows()),
      negative_(n_outputs * design().rows()),
      beta_g_(design().rows()),
      beta_h_(design().rows()) {}

std::size_t Sweep::run(const double* y, const double* alpha, double gamma, const std::size_t* order, Split split,
                       const Limits& limits, const std::function<bool()>& proceed, double* V, double* Z,
                       Tally& tally) {
  const std::size_t rows = design().rows(), columns = design().columns();
  const double* targets = by_output(y);
  sum_outputs(alpha, Z);
  const double size = objective_size(targets, gamma, alpha, V);
  for (std::size_t visited = 0; visited < n_hidden(); ++visited) {
    if (!proceed()) return visited;
    const std::size_t unit = order[visited];
    const double* weights = alpha + unit * n_outputs_;
    double* v = V + unit * columns;
    double* z = Z + unit * rows;
    add_outputs(weights, z, -1.0);
    split_slopes(targets, weights, split);
    const NeuronProblem problem{beta_g_.data(), beta_h_.data(), square(weights, n_outputs_), gamma, size};
    neuron_.improve(problem, limits, v, z, grams_[unit], tally);
    add_outputs(weights, z, 1.0);
  }
  return n_hidden();
}

// The targets with the rows of each output together.
const double* Sweep::by_output(const double* y) {
  if (n_outputs_ == 1) return y;
  const std::size_t rows = design().rows();
  for (std::size_t j = 0; j < rows; ++j) {
    for (std::size_t o = 0; o < n_outputs_; ++o) targets_[o * rows + j] = y[j * n_outputs_ + o];
  }
  return targets_.data();
}

void Sweep::sum_outputs(const double* alpha, const double* Z) {
  std::fill(positive_.begin(), positive_.end(), 0.0);
  std::fill(negative_.begin(), negative_.end(), 0.0);
  for (std::size_t unit = 0; unit < n_hidden(); ++unit) {
    add_outputs(alpha + unit * n_outputs_, Z + unit * design().rows(), 1.0);
  }
}

void Sweep::add_outputs(const double* alpha, const double* z, double sign) {
  const std::size_t rows = design().rows();
  for (std::size_t o = 0; o < n_outputs_; ++o) {
    double* sum = (alpha[o] > 0.0 ? positive_ : negative_).data() + o * rows;
    const double weight = sign * std::fabs(alpha[o]);
    for (std::size_t j = 0; j < rows; ++j) sum[j] += weight * (z[j] > 0.0 ? z[j] : 0.0);
  }
}

// Slopes of the convex and of the concave part, for the sums without the neuron itself.
void Sweep::split_slopes(const double* y, const double* alpha, Split split) {
  const std::size_t rows = design().rows();
  std::fill(beta_g_.begin(), beta_g_.end(), kEmptySum);
  std::fill(beta_h_.begin(), beta_h_.end(), kEmptySum);
  for (std::size_t o = 0; o < n_outputs_; ++o) {
    const double* positive = positive_.data() + o * rows;
    const double* negative = negative_.data() + o * rows;
    const bool up = alpha[o] > 0.0;
    const OutputView output{y + o * rows, up ? positive : negative, up ? negative : positive, up ? 1.0 : -1.0,
                            2.0 * std::fabs(alpha[o])};
    if (split == Split::kPaper) add_paper_slopes(output, rows, beta_g_.data(), beta_h_.data());
    else add_net_slopes(output, rows, beta_g_.data());
  }
  if (split == Split::kPaper) return;
  for (std::size_t j = 0; j < rows; ++j) {
    const double slope = beta_g_[j];
    beta_g_[j] = std::max(slope, 0.0);
    beta_h_[j] = std::max(-slope, 0.0);
  }
}

double Sweep::objective_size(const double* y, double gamma, const double* alpha, const double* V) const {
  double squares = 0.0;
  for (std::size_t j = 0; j < positive_.size(); ++j) {
    const double residual = y[j] - (positive_[j] - negative_[j]);
    squares += residual * residual;
  }
  return squares + gamma * (dot(V, V, n_hidden() * design().columns()) + dot(alpha, alpha, n_hidden() * n_outputs_));
}

}  // namespace dconnet
