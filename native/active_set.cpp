#include "active_set.hpp"

#include <algorithm>
#include <cmath>

namespace dconnet {

namespace {

// A row stays on its side unless it is wrong by more than this fraction of the largest value.
constexpr double kTolerance = 1e-13;
// A row on the wrong side goes to its kink if it is wrong by less than its slope over this many curvatures, and to the
// other side otherwise. The larger, the fewer kinks are tried, of which there may be no more than columns.
constexpr double kKinkScale = 10.0;

}  // namespace

ActiveSet::ActiveSet(const Design& design, ActiveGram::Room& room)
    : design_(design),
      side_(design.rows()),
      active_(design.rows()),
      z_(design.rows()),
      kink_multipliers_(design.stride()),
      forces_(design.stride()),
      v_(design.stride()),
      right_side_(design.stride()),
      active_slopes_(design.stride()),
      factor_(design.stride() * design.stride()),
      kink_rows_(design.stride() * design.stride()),
      schur_(design.stride() * design.stride()),
      room_(room) {
  kinks_.reserve(design.columns() + 1);
}

bool ActiveSet::solve(const Programme& programme, std::size_t max_rounds, double* v, double* z, double* multipliers,
                      ActiveGram& gram, std::size_t& rounds) {
  const std::size_t rows = design_.rows(), columns = design_.columns();
  first_sides(programme, z, multipliers);
  slopes_known_ = false;
  for (std::size_t round = 0; round < max_rounds; ++round) {
    ++rounds;
    if (!solve_on_pattern(programme, gram)) return false;
    if (correct_sides(programme)) continue;
    std::copy(v_.begin(), v_.begin() + static_cast<std::ptrdiff_t>(columns), v);
    for (std::size_t j = 0; j < rows; ++j) {
      z[j] = z_[j];
      const double slope = programme.slope[j] + 2.0 * programme.curvature * std::max(z_[j], 0.0);
      multipliers[j] = side_[j] == kActive ? slope : 0.0;
    }
    for (std::size_t i = 0; i < kinks_.size(); ++i) {
      multipliers[kinks_[i]] = std::min(std::max(kink_multipliers_[i], 0.0), programme.slope[kinks_[i]]);
    }
    return true;
  }
  return false;
}

// The proximal map knows from z and the multiplier on which side of its kink a row ends up.
void ActiveSet::first_sides(const Programme& programme, const double* z, const double* multipliers) {
  const double hessian = 2.0 * (programme.gamma + programme.curvature);
  for (std::size_t j = 0; j < design_.rows(); ++j) {
    const double pull = hessian * z[j] + multipliers[j];
    side_[j] = pull <= 0.0 ? kInactive : (pull > programme.slope[j] ? kActive : kKink);
  }
}

bool ActiveSet::solve_on_pattern(const Programme& programme, ActiveGram& gram) {
  const std::size_t rows = design_.rows(), columns = design_.columns(), stride = design_.stride();
  kinks_.clear();
  for (std::size_t j = 0; j < rows; ++j) {
    active_[j] = side_[j] == kActive;
    if (side_[j] == kKink) {
      if (kinks_.size() == columns) return false;
      kinks_.push_back(j);
    }
  }
  const std::size_t changes = gram.match(design_, active_.data(), room_);
  if (slopes_known_ && changes != ActiveGram::kRecomputed) {
    for (std::size_t i = 0; i < changes; ++i) room_.weights[i] *= programme.slope[room_.rows[i]];
    design_.add_rows(room_.rows.data(), room_.weights.data(), changes, active_slopes_.data());
  } else {
    for (std::size_t j = 0; j < rows; ++j) z_[j] = active_[j] ? programme.slope[j] : 0.0;
    design_.apply_transposed(z_.data(), active_slopes_.data());
    slopes_known_ = true;
  }
  for (std::size_t i = 0; i < factor_.size(); ++i) factor_[i] = 2.0 * programme.curvature * gram.values()[i];
  for (std::size_t k = 0; k < columns; ++k) {
    factor_[k * stride + k] += 2.0 * programme.gamma;
    right_side_[k] = programme.linear[k] - active_slopes_[k];
  }
  if (!cholesky(factor_.data(), columns, stride)) return false;
  std::copy(right_side_.begin(), right_side_.end(), v_.begin());
  cholesky_solve(factor_.data(), columns, stride, v_.data());
  if (!kinks_.empty() && !hold_kinks()) return false;
  design_.apply(v_.data(), z_.data());
  return true;
}

// Forces on the kinked rows that bring them to zero: the Schur complement of the Hessian in those rows. A second pass
// with the same factors removes the rounding of the first.
bool ActiveSet::hold_kinks() {
  const std::size_t columns = design_.columns(), stride = design_.stride(), count = kinks_.size();
  for (std::size_t i = 0; i < count; ++i) {
    double* row = kink_rows_.data() + i * stride;
    std::copy(design_.row(kinks_[i]), design_.row(kinks_[i]) + stride, row);
    cholesky_half_solve(factor_.data(), columns, stride, row);
    kink_multipliers_[i] = 0.0;
  }
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t l = i; l < count; ++l) {
      schur_[i * stride + l] = dot(kink_rows_.data() + i * stride, kink_rows_.data() + l * stride, columns);
    }
  }
  if (!cholesky(schur_.data(), count, stride)) return false;
  for (int pass = 0; pass < 2; ++pass) {
    for (std::size_t i = 0; i < count; ++i) forces_[i] = dot(design_.row(kinks_[i]), v_.data(), columns);
    cholesky_solve(schur_.data(), count, stride, forces_.data());
    std::fill(right_side_.begin(), right_side_.end(), 0.0);
    for (std::size_t i = 0; i < count; ++i) {
      kink_multipliers_[i] += forces_[i];
      for (std::size_t k = 0; k < columns; ++k) right_side_[k] += forces_[i] * design_.row(kinks_[i])[k];
    }
    cholesky_solve(factor_.data(), columns, stride, right_side_.data());
    for (std::size_t k = 0; k < columns; ++k) v_[k] -= right_side_[k];
  }
  return true;
}

// Moves the rows that are on the wrong side; true if there were any.
bool ActiveSet::correct_sides(const Programme& programme) {
  const double hessian = 2.0 * (programme.gamma + programme.curvature);
  const double scale = kKinkScale * hessian;
  const double noise = kTolerance * max_abs(z_.data(), design_.rows());
  const double force_noise = hessian * noise + kTolerance * max_abs(programme.linear, design_.columns());
  bool changed = false;
  std::size_t kink = 0;  // the rows at their kink are listed in order
  for (std::size_t j = 0; j < design_.rows(); ++j) {
    const double z = z_[j], beta = programme.slope[j];
    Side side = side_[j];
    if (side == kInactive) {
      if (z > noise) side = scale * z <= beta ? kKink : kActive;
    } else if (side == kActive) {
      if (z < -noise) side = beta + scale * z > 0.0 ? kKink : kInactive;
    } else {
      const double force = kink_multipliers_[kink++];
      if (force < -force_noise) side = kInactive;
      if (force > beta + force_noise) side = kActive;
    }
    changed |= side != side_[j];
    side_[j] = side;
  }
  return changed;
}

}  // namespace dconnet
