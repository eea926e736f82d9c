#include "near_rows.hpp"

#include <algorithm>
#include <cmath>

namespace dconnet {

namespace {

// At most this many rows are added to the face one by one; with more, the face is entered from scratch.
constexpr std::size_t kMostAtOnce = 1024;

}  // namespace

NearRows::NearRows(FarRows& far)
    : far_(far),
      solver_(Design::with_capacity(far.most_near(), far.columns()), far.passes().team()),
      products_(far.passes().team()),
      gram_(solver_.design()),
      base_(far.stride() * far.stride()),
      last_base_(base_.size()),
      linear_(far.stride()),
      product_(far.stride()),
      beta_g_(far.most_near()),
      beta_h_(far.most_near()),
      net_(far.most_near()),
      z_(far.most_near()),
      multipliers_(far.most_near()),
      weights_(far.most_near()),
      kink_norms_(far.most_near()),
      active_(far.most_near()),
      marks_(far.most_near()),
      trial_marks_(far.most_near()) {}

PackedRows NearRows::places_from(std::size_t first, std::size_t count) {
  return {solver_.replace_rows(first, count), beta_g_.data() + first, beta_h_.data() + first, z_.data() + first,
          active_.data() + first};
}

void NearRows::take(std::size_t count) {
  far_.collect(count, places_from(0, count));
  solver_.took_rows(0);
  n_known_ = count;
  std::copy_n(far_.gram(), base_.size(), base_.begin());
  gram_.clear(base_.data());
}

bool NearRows::add(std::size_t count) {
  const std::size_t first = design().rows();
  far_.collect(count, places_from(first, count));
  const bool walked = solver_.took_rows(first);
  last_base_ = base_;  // base_ keeps its address, which gram_ has
  std::copy_n(far_.gram(), base_.size(), base_.begin());
  if (!walked || count > kMostAtOnce) {
    n_known_ = design().rows();
    gram_.clear(base_.data());
    return false;
  }
  std::fill_n(multipliers_.data() + first, count, 0.0);
  gram_.base_changed(last_base_.data());
  return true;
}

Outcome NearRows::solve(const double* linear, double curvature, double gamma, double tolerance,
                        std::size_t max_iterations, bool next, double* v) {
  for (std::size_t k = 0; k < linear_.size(); ++k) linear_[k] = linear[k] - far_.slopes_g()[k];
  if (!next) {
    products_.apply(design(), v, z_.data());
    for (std::size_t i = 0; i < design().rows(); ++i) {
      multipliers_[i] = z_[i] > 0.0 ? beta_g_[i] + 2.0 * curvature * z_[i] : 0.0;
    }
  }
  const Programme programme{design(), linear_.data(), beta_g_.data(), curvature, gamma, base_.data()};
  if (next) solver_.admit(programme, n_known_, z_.data());
  n_known_ = design().rows();
  return solver_.solve(programme, tolerance, max_iterations, next, {v, z_.data(), multipliers_.data()}, gram_);
}

Outcome NearRows::descend(double curvature, double gamma, std::size_t max_steps, bool next, double* v) {
  for (std::size_t k = 0; k < linear_.size(); ++k) linear_[k] = far_.slopes_h()[k] - far_.slopes_g()[k];
  for (std::size_t i = 0; i < design().rows(); ++i) net_[i] = beta_g_[i] - beta_h_[i];
  if (!next) products_.apply(design(), v, z_.data());
  const Programme own{design(), linear_.data(), net_.data(), curvature, gamma, base_.data(), false};
  if (next) solver_.admit(own, n_known_, z_.data());
  n_known_ = design().rows();
  return solver_.descend(own, max_steps, next, {v, z_.data(), multipliers_.data()}, gram_);
}

void NearRows::mark(std::size_t first, const double* v) {
  const double noise = kink_noise(v, far_.columns(), kinks_ != nullptr);
  const std::size_t count = design().rows() - first;
  std::copy_n(solver_.norms() + first, count, kink_norms_.data() + first);
  if (kinks_) {
    multiply(design().row(first), count, far_.stride(), kinks_, weights_.data() + first);
    for (std::size_t i = first; i < first + count; ++i) kink_norms_[i] = std::copysign(kink_norms_[i], weights_[i]);
  }
  multiply(design().row(first), count, far_.stride(), v, weights_.data() + first);
  for (std::size_t i = first; i < first + count; ++i) marks_[i] = weights_[i] >= -noise * kink_norms_[i];
}

NearRows::Values NearRows::evaluate(const double* v, double curvature, double* tangent) {
  const double noise = kink_noise(v, far_.columns(), kinks_ != nullptr);
  const double bend = curvature * symmetric_form(far_.gram(), far_.stride(), v);
  const double up = dot(far_.slopes_g(), v, far_.columns()), down = dot(far_.slopes_h(), v, far_.columns());
  Values found{up - down + bend, up + bend, 0.0, 0, up + down, 0.0};
  products_.apply(design(), v, z_.data());
  for (std::size_t i = 0; i < design().rows(); ++i) {
    const double z = z_[i], active = std::max(z, 0.0);
    const bool marked = z >= -noise * kink_norms_[i];
    found.hinges += (beta_g_[i] - beta_h_[i] + curvature * active) * active;
    found.convex_hinges += (beta_g_[i] + curvature * active) * active;
    found.largest = larger(found.largest, std::fabs(z));
    found.changed += marked != (marks_[i] != 0);
    trial_marks_[i] = marked;
    found.cancelling += (beta_g_[i] + beta_h_[i]) * active;
    if (marked != (z >= 0.0)) found.lift += beta_h_[i] * std::fabs(z);
    weights_[i] = marked ? beta_h_[i] : 0.0;
  }
  design().apply_transposed(weights_.data(), tangent);
  for (std::size_t k = 0; k < far_.stride(); ++k) tangent[k] += far_.slopes_h()[k];
  return found;
}

}  // namespace dconnet
