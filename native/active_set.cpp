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

ActiveSet::ActiveSet(const Design& design, Face& face, Scratch& scratch)
    : design_(design), face_(face), sides_(design.rows()), z_(scratch.z) {}

bool ActiveSet::solve(const Programme& programme, std::size_t max_rounds, double* v, double* z, double* multipliers,
                      ActiveGram& gram, std::size_t& rounds) {
  first_sides(programme, z, multipliers);
  if (!face_.enter(programme, sides_.data(), gram, z_.data())) return false;
  for (std::size_t round = 0; round < max_rounds; ++round) {
    ++rounds;
    if (!face_.minimise()) return false;
    design_.apply(face_.v(), z_.data());
    if (correct_sides(programme)) continue;
    std::copy(face_.v(), face_.v() + design_.columns(), v);
    std::copy(z_.begin(), z_.begin() + static_cast<std::ptrdiff_t>(design_.rows()), z);
    face_.multipliers(z, multipliers);
    return true;
  }
  return false;
}

// The proximal map knows from z and the multiplier on which side of its kink a row ends up.
void ActiveSet::first_sides(const Programme& programme, const double* z, const double* multipliers) {
  const double hessian = 2.0 * (programme.gamma + programme.curvature);
  for (std::size_t j = 0; j < design_.rows(); ++j) {
    const double pull = hessian * z[j] + multipliers[j];
    sides_[j] = pull <= 0.0 ? Side::kInactive : (pull > programme.slope[j] ? Side::kActive : Side::kKink);
  }
}

// Moves the rows that are on the wrong side; true if there were any.
bool ActiveSet::correct_sides(const Programme& programme) {
  const double hessian = 2.0 * (programme.gamma + programme.curvature);
  const double scale = kKinkScale * hessian;
  const double noise = kTolerance * max_abs(z_.data(), design_.rows());
  const double force_noise = hessian * noise + kTolerance * max_abs(programme.linear, design_.columns());
  bool changed = false;
  for (std::size_t j = 0; j < design_.rows(); ++j) {
    const double z = z_[j], beta = programme.slope[j];
    const Side side = sides_[j];
    if (side == Side::kInactive && z > noise) sides_[j] = scale * z <= beta ? Side::kKink : Side::kActive;
    if (side == Side::kActive && z < -noise) sides_[j] = beta + scale * z > 0.0 ? Side::kKink : Side::kInactive;
  }
  for (std::size_t i = 0; i < face_.kinks().size(); ++i) {
    const std::size_t j = face_.kinks()[i];
    if (face_.force(i) < -force_noise) sides_[j] = Side::kInactive;
    if (face_.force(i) > programme.slope[j] + force_noise) sides_[j] = Side::kActive;
  }
  for (std::size_t j = 0; j < design_.rows(); ++j) {
    if (sides_[j] == face_.side(j)) continue;
    face_.move(j, sides_[j]);
    changed = true;
  }
  return changed;
}

}  // namespace dconnet
