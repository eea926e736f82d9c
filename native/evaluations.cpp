#include "evaluations.hpp"

#include <algorithm>
#include <cmath>

#include "dense.hpp"

namespace dconnet {

std::size_t answer_size(Ask ask, const Layout& layout) {
  switch (ask) {
    case Ask::kGradient: return layout.size() + kLanes;
    case Ask::kValue: return 1;
    case Ask::kOutputs: return 2;
    case Ask::kMoments: return (layout.width + layout.n_outputs) * layout.width;
    case Ask::kMatches: return layout.n_outputs * (layout.stride + 1) + 1;
  }
  return 0;
}

Evaluations::Evaluations(const Layout& layout, double gamma, std::size_t rows, double target_square)
    : layout_(layout),
      gamma_(gamma),
      rows_(rows),
      target_square_(target_square),
      answer_(answer_size(Ask::kGradient, layout)),
      moments_(layout.n_outputs * layout.width),
      unit_(layout.width) {}

double Evaluations::penalty(const double* theta) const { return gamma_ * dot(theta, theta, layout_.size()); }

double Evaluations::gradient(const double* theta, double* gradient) {
  sum(Ask::kGradient, theta, 0, answer_.data());
  for (std::size_t i = 0; i < layout_.size(); ++i) gradient[i] = answer_[i] + 2.0 * gamma_ * theta[i];
  return answer_[layout_.size()] + penalty(theta);
}

double Evaluations::value(const double* theta) {
  double squares;
  sum(Ask::kValue, theta, 0, &squares);
  return squares + penalty(theta);
}

Evaluations::Agreement Evaluations::agreement(const double* theta) {
  double sums[2];
  sum(Ask::kOutputs, theta, 0, sums);
  return {sums[0], sums[1]};
}

void Evaluations::match_all(const double* theta, const double* directions, std::size_t count) {
  question_.assign(theta, theta + layout_.size());
  question_.insert(question_.end(), directions, directions + count * layout_.stride);
  matches_.resize(count * answer_size(Ask::kMatches, layout_));
  sum(Ask::kMatches, question_.data(), count, matches_.data());
}

Evaluations::Match Evaluations::match(std::size_t i) const {
  const double* sums = matches_.data() + i * answer_size(Ask::kMatches, layout_);
  return {sums, sums[layout_.n_outputs], sums + layout_.n_outputs + 1};
}

// Cholesky factor of the Gram matrix of the neurons' outputs plus gamma, and their products with each column of y.
bool Evaluations::factorise_outputs(const double* theta) {
  const std::size_t width = layout_.width;
  gram_.resize(answer_size(Ask::kMoments, layout_));
  sum(Ask::kMoments, theta, 0, gram_.data());
  std::copy_n(gram_.data() + width * width, moments_.size(), moments_.data());
  for (std::size_t l = 0; l < layout_.n_hidden; ++l) gram_[l * width + l] += gamma_;
  return cholesky(gram_.data(), layout_.n_hidden, width);
}

// Turns the products with y into the output weights of the ridge regression, one output after the other.
void Evaluations::solve_moments() {
  for (std::size_t o = 0; o < layout_.n_outputs; ++o) {
    cholesky_solve(gram_.data(), layout_.n_hidden, layout_.width, moments_.data() + o * layout_.width);
  }
}

void Evaluations::solve_output_weights(double* theta) {
  if (!factorise_outputs(theta)) return;
  solve_moments();
  std::copy(moments_.begin(), moments_.end(), layout_.alpha(theta));  // what lies behind the neurons is zero in both
}

// Without variable l a ridge regression with the matrix A = L L' is worse by |alpha_l|² / (A^-1)_ll; its hidden weights
// are no longer paid for.
void Evaluations::removal_costs(const double* theta, double* costs) {
  if (!factorise_outputs(theta)) return std::fill(costs, costs + layout_.n_hidden, 0.0);
  solve_moments();
  for (std::size_t l = 0; l < layout_.n_hidden; ++l) {
    std::fill(unit_.begin(), unit_.end(), 0.0);
    unit_[l] = 1.0;
    cholesky_half_solve(gram_.data(), layout_.n_hidden, layout_.width, unit_.data());
    const double inverse = dot(unit_.data(), unit_.data(), layout_.n_hidden);
    const double hidden = layout_.norm(theta, l);
    double output_square = 0.0;
    for (std::size_t o = 0; o < layout_.n_outputs; ++o) {
      const double weight = moments_[o * layout_.width + l];
      output_square += weight * weight;
    }
    costs[l] = output_square / inverse - gamma_ * hidden * hidden;
  }
}

}  // namespace dconnet
