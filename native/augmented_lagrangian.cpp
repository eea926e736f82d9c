#include "augmented_lagrangian.hpp"

#include <algorithm>
#include <cmath>

#include "dispatch.hpp"
#include "lanes.hpp"

namespace dconnet {

namespace {

// All numbers are in units in which the largest entry of t and the largest possible curvature are one.

// A soft penalty holds many rows at their kinks at first, which is what the programmes have in common that get here. How
// soft hardly matters: from 30 to 1000 the same ones are solved in the same time.
constexpr double kFirstPenalty = 100.0;
// The penalty grows only while the violation of z = Q v does not shrink to this share by itself: a new penalty moves all
// kinks and costs Newton steps, an unchanged one costs a single step once the pattern of active rows is found.
constexpr double kGoodReduction = 0.2;
constexpr double kPenaltyGrowth = 1.0 / kGoodReduction;  // with which the violation would shrink by as much
// What a penalty costs in rounding is in proportion to it and to z: half of the digits at most.
constexpr double kLargestPenalty = 1e6;
// Near zero it would have no limit; beyond this one the kinked rows outweigh gamma by more digits than there are.
constexpr double kLargestPenaltyAtZero = 1e10;
// At the largest penalty, slow progress is still progress: degenerate programmes make no other.
constexpr double kStandstill = 0.95;
// What is left of the gradient, or of z = Q v, that is rounding. Newton's method is exact once the pattern is right, so
// that nothing would be saved by asking for less.
constexpr double kExact = 1e-13;
// Rounding of the gradient for each unit of penalty.
constexpr double kRounding = 1e-15;
// A full step is good enough if the slope at its end is this share of the first one, or negative; a shorter one has to
// come closer to where it is zero, since it is there that the pattern changes.
constexpr double kFullStepSlope = 0.1, kShortStepSlope = 0.01;
// The search converges superlinearly: what is not found by then is rounding.
constexpr int kLineSearchSteps = 30;

// Slope of the envelope of a hinge where penalty and multiplier pull that much: zero, the pull itself up to the
// hinge's own slope, and beyond that a share of the excess.
DCONNET_INLINE double envelope_slope(double pull, double beta, double share) {
  const double positive = pull > 0.0 ? pull : 0.0;
  const double excess = pull > beta ? pull - beta : 0.0;
  return (positive < beta ? positive : beta) + share * excess;
}

DCONNET_INLINE void envelope_slopes(std::size_t rows, double penalty, double share, const double* z,
                                    const double* multipliers, const double* beta, double* slopes,
                                    unsigned char* active) {
  for (std::size_t j = 0; j < rows; ++j) {
    const double pull = penalty * z[j] + multipliers[j];
    slopes[j] = envelope_slope(pull, beta[j], share);
    active[j] = pull > beta[j];
  }
}

DCONNET_INLINE double slope_sum(std::size_t rows, double penalty, double share, double tau, const double* z,
                                const double* along, const double* multipliers, const double* beta) {
  double sum[kLanes] = {};
  std::size_t j = 0;
  for (; j + kLanes <= rows; j += kLanes) {
    for (std::size_t i = 0; i < kLanes; ++i) {
      const double pull = penalty * (z[j + i] + tau * along[j + i]) + multipliers[j + i];
      sum[i] += envelope_slope(pull, beta[j + i], share) * along[j + i];
    }
  }
  double total = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  for (; j < rows; ++j) {
    const double pull = penalty * (z[j] + tau * along[j]) + multipliers[j];
    total += envelope_slope(pull, beta[j], share) * along[j];
  }
  return total;
}

double active_share(const Programme& programme, double penalty) {
  return 2.0 * programme.curvature / (penalty + 2.0 * programme.curvature);
}

}  // namespace

AugmentedLagrangian::AugmentedLagrangian(const Design& design, ActiveGram::Changes& changes, Scratch& scratch)
    : design_(design),
      z_(scratch.z),
      derivative_(scratch.slopes),
      along_(scratch.along),
      active_(design.rows()),
      gradient_(design.stride()),
      direction_(design.stride()),
      hessian_(design.stride() * design.stride()),
      linear_(design.stride()),
      slope_(design.rows()),
      changes_(changes) {}

std::size_t AugmentedLagrangian::solve(const Programme& programme, std::size_t max_steps, double* v,
                                       double* multipliers, ActiveGram& gram) {
  const std::size_t rows = design_.rows(), columns = design_.columns();
  const double gradient_unit = max_abs(programme.linear, columns);
  const double hessian = programme.gamma + programme.curvature, length_unit = gradient_unit / hessian;
  for (std::size_t k = 0; k < columns; ++k) {
    linear_[k] = programme.linear[k] / gradient_unit;
    v[k] /= length_unit;
  }
  for (std::size_t j = 0; j < rows; ++j) {
    slope_[j] = programme.slope[j] / gradient_unit;
    multipliers[j] = std::max(multipliers[j] / gradient_unit, 0.0);
  }
  const Programme scaled{design_, linear_.data(), slope_.data(), programme.curvature / hessian,
                         programme.gamma / hessian};
  const std::size_t steps = solve_in_units(scaled, max_steps, v, multipliers, gram);
  for (std::size_t k = 0; k < columns; ++k) v[k] *= length_unit;
  for (std::size_t j = 0; j < rows; ++j) multipliers[j] *= gradient_unit;
  return steps;
}

std::size_t AugmentedLagrangian::solve_in_units(const Programme& programme, std::size_t max_steps, double* v,
                                                double* multipliers, ActiveGram& gram) {
  const std::size_t rows = design_.rows();
  start(programme, v, multipliers);
  penalty_ = kFirstPenalty;
  double last_violation = INFINITY;
  std::size_t steps = 0;
  while (steps < max_steps && minimise(programme, max_steps, v, multipliers, gram, steps)) {
    ++steps;  // an update counts as a step: without Newton steps the loop would not end
    const double violation = update_multipliers(multipliers);
    if (!(violation > kExact)) break;
    if (violation > kGoodReduction * last_violation) {
      const double largest =
          std::max(penalty_, std::min(kLargestPenalty / max_abs(z_.data(), rows), kLargestPenaltyAtZero));
      if (penalty_ == largest && violation > kStandstill * last_violation) break;
      penalty_ = std::min(penalty_ * kPenaltyGrowth, largest);
    }
    last_violation = violation;
    design_.apply(v, z_.data());  // sweeps out the rounding of the steps
  }
  return steps;
}

// A start that is worse than zero, where P is zero, only misleads.
void AugmentedLagrangian::start(const Programme& programme, double* v, double* multipliers) {
  design_.apply(v, z_.data());
  if (value(programme, v, z_.data()) <= 0.0) return;
  std::fill(v, v + design_.columns(), 0.0);
  std::fill(z_.begin(), z_.end(), 0.0);
  std::fill(multipliers, multipliers + design_.rows(), 0.0);
}

// Newton steps to the minimiser of the augmented Lagrangian over v; false if there are none left.
bool AugmentedLagrangian::minimise(const Programme& programme, std::size_t max_steps, double* v,
                                   const double* multipliers, ActiveGram& gram, std::size_t& steps) {
  const std::size_t rows = design_.rows(), columns = design_.columns();
  evaluate(programme, v, multipliers);
  const double reachable = std::max(kExact, kRounding * penalty_ * max_abs(z_.data(), rows));
  while (max_abs(gradient_.data(), columns) > reachable) {
    if (steps == max_steps || (proceed_ && !(*proceed_)()) || !newton_direction(programme, gram)) return false;
    ++steps;
    const double tau = step_length(programme, v, multipliers);
    if (tau == 0.0) break;  // the gradient is nothing but rounding
    for (std::size_t k = 0; k < columns; ++k) v[k] += tau * direction_[k];
    for (std::size_t j = 0; j < rows; ++j) z_[j] += tau * along_[j];
    evaluate(programme, v, multipliers);
  }
  return true;
}

// The slope of the envelope is the next multiplier; the change of it is the violation of z = Q v.
double AugmentedLagrangian::update_multipliers(double* multipliers) const {
  double change = 0.0;
  for (std::size_t j = 0; j < design_.rows(); ++j) {
    change = larger(change, std::fabs(derivative_[j] - multipliers[j]));
    multipliers[j] = derivative_[j];
  }
  return change / penalty_;
}

void AugmentedLagrangian::evaluate(const Programme& programme, const double* v, const double* multipliers) {
  fastest<envelope_slopes>(design_.rows(), penalty_, active_share(programme, penalty_), z_.data(), multipliers,
                  programme.slope, derivative_.data(), active_.data());
  design_.apply_transposed(derivative_.data(), gradient_.data());
  for (std::size_t k = 0; k < design_.columns(); ++k) {
    gradient_[k] += 2.0 * programme.gamma * v[k] - programme.linear[k];
  }
}

// Hessian: 2 gamma I, the penalty on the kinked rows, and the softened curvature on the active ones.
bool AugmentedLagrangian::newton_direction(const Programme& programme, ActiveGram& gram) {
  const std::size_t rows = design_.rows(), columns = design_.columns(), stride = design_.stride();
  gram.match(design_, active_.data(), changes_);
  const double weight = penalty_ * active_share(programme, penalty_);
  for (std::size_t i = 0; i < hessian_.size(); ++i) hessian_[i] = weight * gram.values()[i];
  std::size_t kinked = 0;
  for (std::size_t j = 0; j < rows; ++j) {
    changes_.rows[kinked] = static_cast<Row>(j);
    changes_.weights[kinked] = penalty_;
    kinked += derivative_[j] > 0.0 && !active_[j];
  }
  design_.add_gram(changes_.rows.data(), changes_.weights.data(), kinked, hessian_.data());
  for (std::size_t k = 0; k < columns; ++k) hessian_[k * stride + k] += 2.0 * programme.gamma;
  if (!cholesky(hessian_.data(), columns, stride)) return false;
  for (std::size_t k = 0; k < columns; ++k) direction_[k] = -gradient_[k];
  cholesky_solve(hessian_.data(), columns, stride, direction_.data());
  return true;
}

double AugmentedLagrangian::slope_along(const Programme& programme, const double* multipliers, double tau,
                                        double linear, double quadratic) const {
  return linear + tau * quadratic +
         fastest<slope_sum>(design_.rows(), penalty_, active_share(programme, penalty_), tau, z_.data(), along_.data(),
                   multipliers, programme.slope);
}

// The slope along the direction increases with tau. The full step is taken if the slope there is not positive or
// small; otherwise its zero is bracketed.
double AugmentedLagrangian::step_length(const Programme& programme, const double* v, const double* multipliers) {
  const std::size_t columns = design_.columns();
  design_.apply(direction_.data(), along_.data());
  const double linear = 2.0 * programme.gamma * dot(v, direction_.data(), columns) -
                        dot(programme.linear, direction_.data(), columns);
  const double quadratic = 2.0 * programme.gamma * dot(direction_.data(), direction_.data(), columns);
  const double at_zero = dot(gradient_.data(), direction_.data(), columns);
  if (!(at_zero < 0.0)) return 0.0;
  double low = 0.0, high = 1.0, slope_low = at_zero;
  double slope_high = slope_along(programme, multipliers, 1.0, linear, quadratic);
  if (slope_high <= -kFullStepSlope * at_zero) return 1.0;
  double tau = 1.0;
  int last_side = 0;
  for (int i = 0; i < kLineSearchSteps; ++i) {  // regula falsi, Illinois variant: an end that stays is given half its weight
    tau = (low * slope_high - high * slope_low) / (slope_high - slope_low);
    const double slope = slope_along(programme, multipliers, tau, linear, quadratic);
    if (std::fabs(slope) <= -kShortStepSlope * at_zero) break;
    const int side = slope > 0.0 ? 1 : -1;
    if (side > 0) {
      high = tau, slope_high = slope;
      if (last_side == side) slope_low *= 0.5;
    } else {
      low = tau, slope_low = slope;
      if (last_side == side) slope_high *= 0.5;
    }
    last_side = side;
  }
  return tau;
}

}  // namespace dconnet
