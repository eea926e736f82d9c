#include "augmented_lagrangian.hpp"

#include <algorithm>
#include <cmath>

#include "dispatch.hpp"
#include "lanes.hpp"

namespace dconnet {

namespace {

// The penalty grows only while the violation of z = Q v does not shrink by itself: a new penalty moves all kinks and
// costs Newton steps, an unchanged one costs a single step once the pattern of active rows is found.
constexpr double kPenaltyGrowth = 5.0;
constexpr double kGoodReduction = 0.2;
constexpr double kLargestPenalty = 1e6;
constexpr double kLargestPenaltyAtZero = 1e10;
// At the largest penalty, slow progress is still progress: degenerate programmes make no other.
constexpr double kStandstill = 0.95;
// Gradient of a minimiser in units of order one. Newton's method is exact once the pattern is right, so that nothing
// would be saved by asking for less.
constexpr double kExact = 1e-13;
// Rounding of the gradient for each unit of penalty.
constexpr double kRounding = 1e-15;

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

AugmentedLagrangian::AugmentedLagrangian(const Design& design, ActiveGram::Room& room, Scratch& scratch)
    : design_(design),
      z_(scratch.z),
      derivative_(scratch.slopes),
      along_(scratch.along),
      active_(design.rows()),
      gradient_(design.stride()),
      direction_(design.stride()),
      hessian_(design.stride() * design.stride()),
      room_(room) {}

std::size_t AugmentedLagrangian::solve(const Programme& programme, double tolerance, std::size_t max_steps,
                                       double penalty, double* v, double* multipliers, ActiveGram& gram) {
  const std::size_t rows = design_.rows(), columns = design_.columns();
  penalty_ = penalty;
  std::size_t steps = 0;
  double last_violation = INFINITY;
  design_.apply(v, z_.data());
  while (true) {
    evaluate(programme, v, multipliers);
    const double reachable = std::max(kExact, kRounding * penalty_ * max_abs(z_.data(), rows));
    while (max_abs(gradient_.data(), columns) > reachable) {
      if (steps == max_steps || !newton_direction(programme, gram)) return steps;
      ++steps;
      const double tau = step_length(programme, v, multipliers);
      if (tau == 0.0) break;  // the gradient is nothing but rounding
      for (std::size_t k = 0; k < columns; ++k) v[k] += tau * direction_[k];
      for (std::size_t j = 0; j < rows; ++j) z_[j] += tau * along_[j];
      evaluate(programme, v, multipliers);
    }
    const double violation = update_multipliers(multipliers);
    if (violation <= tolerance) return steps;
    if (violation > kGoodReduction * last_violation) {
      // What a penalty costs in rounding is in proportion to z: at a solution near zero it may be far stiffer.
      const double largest =
          std::max(penalty_, std::min(kLargestPenalty / max_abs(z_.data(), rows), kLargestPenaltyAtZero));
      if (penalty_ == largest && violation > kStandstill * last_violation) return steps;
      penalty_ = std::min(penalty_ * kPenaltyGrowth, largest);
    }
    last_violation = violation;
    design_.apply(v, z_.data());  // sweeps out the rounding of the steps
  }
}

// The slope of the envelope is the next multiplier; the change of it is the violation of z = Q v.
double AugmentedLagrangian::update_multipliers(double* multipliers) const {
  double change = 0.0;
  for (std::size_t j = 0; j < design_.rows(); ++j) {
    change = std::max(change, std::fabs(derivative_[j] - multipliers[j]));
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
  gram.match(design_, active_.data(), room_);
  const double weight = penalty_ * active_share(programme, penalty_);
  for (std::size_t i = 0; i < hessian_.size(); ++i) hessian_[i] = weight * gram.values()[i];
  std::size_t kinked = 0;
  for (std::size_t j = 0; j < rows; ++j) {
    room_.rows[kinked] = static_cast<Row>(j);
    room_.weights[kinked] = penalty_;
    kinked += derivative_[j] > 0.0 && !active_[j];
  }
  design_.add_gram(room_.rows.data(), room_.weights.data(), kinked, hessian_.data());
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
  if (slope_high <= -0.1 * at_zero) return 1.0;
  double tau = 1.0;
  int last_side = 0;
  for (int i = 0; i < 30; ++i) {  // regula falsi, Illinois variant: an end that stays is given half its weight
    tau = (low * slope_high - high * slope_low) / (slope_high - slope_low);
    const double slope = slope_along(programme, multipliers, tau, linear, quadratic);
    if (std::fabs(slope) <= -0.01 * at_zero) break;
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
