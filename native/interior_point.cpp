#include "interior_point.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dconnet {

namespace {

// From this gap on, the iteration is expected to converge; it is lost if the gap grows by this factor.
constexpr double kLate = 1e-6;
constexpr double kLost = 100.0;

double longest(const std::vector<double>& values, const std::vector<double>& change, double limit) {
  for (std::size_t j = 0; j < values.size(); ++j) {
    if (change[j] < 0.0) limit = std::min(limit, -values[j] / change[j]);
  }
  return limit;
}

void add(std::vector<double>& values, const std::vector<double>& change, double step) {
  for (std::size_t j = 0; j < values.size(); ++j) values[j] += step * change[j];
}

}  // namespace

InteriorPoint::InteriorPoint(const Design& design)
    : design_(design),
      point_(design.rows(), design.stride()),
      step_(design.rows(), design.stride()),
      lambda_over_w_(design.rows()),
      mu_over_s_(design.rows()),
      diagonal_(design.rows()),
      weight_(design.rows()),
      change_lambda_(design.rows()),
      change_mu_(design.rows()),
      pull_(design.rows()),
      residual_(design.stride()),
      pulled_(design.stride()),
      schur_(design.stride() * design.stride()),
      all_rows_(design.rows()) {
  std::iota(all_rows_.begin(), all_rows_.end(), Row{0});
}

std::size_t InteriorPoint::solve(const Programme& programme, double tolerance, std::size_t max_iterations, double* v,
                                 double* multipliers, Certifier& certifier) {
  start(programme);
  std::size_t iteration = 0;
  double best_gap = INFINITY;
  for (; iteration < max_iterations; ++iteration) {
    design_.apply(point_.v.data(), pull_.data());
    const Certificate certificate =
        certifier.certify(programme, point_.v.data(), pull_.data(), point_.lambda.data(), tolerance);
    if (certificate.gap < best_gap) {
      best_gap = certificate.gap;
      std::copy(point_.v.begin(), point_.v.end(), v);
      std::copy(point_.lambda.begin(), point_.lambda.end(), multipliers);
    }
    // A gap that grows again is that of a point lost in rounding: the best one stands.
    if (best_gap <= tolerance || (best_gap < kLate && !(certificate.gap <= kLost * best_gap))) break;
    if (!factorise(programme)) break;  // all digits are used up: this is as close as it gets
    predict(programme);
    const double now = complementarity(0.0);
    const double then = complementarity(longest_step());
    const double centring = std::min(std::pow(then / now, 3.0), 1.0);
    correct(programme, centring * now);
    move(std::min(1.0, 0.995 * longest_step()));
  }
  return iteration;
}

void InteriorPoint::start(const Programme& programme) {
  std::fill(point_.v.begin(), point_.v.end(), 0.0);
  std::fill(point_.s.begin(), point_.s.end(), 1.0);
  std::fill(point_.w.begin(), point_.w.end(), 1.0);
  for (std::size_t j = 0; j < design_.rows(); ++j) {
    // lambda + mu = beta + 2 a s at a solution; half each is far from both borders.
    point_.lambda[j] = point_.mu[j] = 0.5 * (programme.slope[j] + 2.0 * programme.curvature) + 1e-2;
  }
}

bool InteriorPoint::factorise(const Programme& programme) {
  const double a = programme.curvature;
  for (std::size_t j = 0; j < design_.rows(); ++j) {
    lambda_over_w_[j] = point_.lambda[j] / point_.w[j];
    mu_over_s_[j] = point_.mu[j] / point_.s[j];
    diagonal_[j] = 2.0 * a + lambda_over_w_[j] + mu_over_s_[j];
    weight_[j] = lambda_over_w_[j] * ((2.0 * a + mu_over_s_[j]) / diagonal_[j]);
  }
  std::fill(schur_.begin(), schur_.end(), 0.0);
  design_.add_gram(all_rows_.data(), weight_.data(), design_.rows(), schur_.data());
  for (std::size_t k = 0; k < design_.columns(); ++k) schur_[k * design_.stride() + k] += 2.0 * programme.gamma;
  if (!cholesky(schur_.data(), design_.columns(), design_.stride())) return false;
  design_.apply_transposed(point_.lambda.data(), residual_.data());
  for (std::size_t k = 0; k < design_.columns(); ++k) {
    residual_[k] += 2.0 * programme.gamma * point_.v[k] - programme.linear[k];
  }
  return true;
}

void InteriorPoint::predict(const Programme& programme) {
  for (std::size_t j = 0; j < design_.rows(); ++j) {
    change_lambda_[j] = -point_.lambda[j];
    change_mu_[j] = -point_.mu[j];
  }
  direction(programme);
}

void InteriorPoint::correct(const Programme& programme, double target) {
  for (std::size_t j = 0; j < design_.rows(); ++j) {
    change_lambda_[j] = (target - step_.lambda[j] * step_.w[j]) / point_.w[j] - point_.lambda[j];
    change_mu_[j] = (target - step_.mu[j] * step_.s[j]) / point_.s[j] - point_.mu[j];
  }
  direction(programme);
}

// The step that makes all residuals vanish to first order; change_lambda_ and change_mu_ are the wanted changes of
// lambda w and mu s, already divided by w and s.
void InteriorPoint::direction(const Programme& programme) {
  const std::size_t rows = design_.rows(), columns = design_.columns();
  const double a = programme.curvature;
  for (std::size_t j = 0; j < rows; ++j) {
    const double residual =
        programme.slope[j] + 2.0 * a * point_.s[j] - point_.lambda[j] - point_.mu[j];
    step_.s[j] = -residual + change_lambda_[j] + change_mu_[j];
    pull_[j] = change_lambda_[j] - lambda_over_w_[j] * step_.s[j] / diagonal_[j];
  }
  design_.apply_transposed(pull_.data(), pulled_.data());
  for (std::size_t k = 0; k < columns; ++k) step_.v[k] = -residual_[k] - pulled_[k];
  cholesky_solve(schur_.data(), columns, design_.stride(), step_.v.data());
  design_.apply(step_.v.data(), pull_.data());
  for (std::size_t j = 0; j < rows; ++j) {
    step_.s[j] = (step_.s[j] + lambda_over_w_[j] * pull_[j]) / diagonal_[j];
    step_.w[j] = step_.s[j] - pull_[j];
    step_.lambda[j] = change_lambda_[j] - lambda_over_w_[j] * step_.w[j];
    step_.mu[j] = change_mu_[j] - mu_over_s_[j] * step_.s[j];
  }
}

double InteriorPoint::longest_step() const {
  double limit = 1.0;
  limit = longest(point_.s, step_.s, limit);
  limit = longest(point_.w, step_.w, limit);
  limit = longest(point_.lambda, step_.lambda, limit);
  return longest(point_.mu, step_.mu, limit);
}

double InteriorPoint::complementarity(double step) const {
  double sum = 0.0;
  for (std::size_t j = 0; j < design_.rows(); ++j) {
    sum += (point_.lambda[j] + step * step_.lambda[j]) * (point_.w[j] + step * step_.w[j]) +
           (point_.mu[j] + step * step_.mu[j]) * (point_.s[j] + step * step_.s[j]);
  }
  return sum / (2.0 * static_cast<double>(design_.rows()));
}

void InteriorPoint::move(double step) {
  add(point_.v, step_.v, step);
  add(point_.s, step_.s, step);
  add(point_.w, step_.w, step);
  add(point_.lambda, step_.lambda, step);
  add(point_.mu, step_.mu, step);
}

}  // namespace dconnet
