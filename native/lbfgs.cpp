#include "lbfgs.hpp"

#include <algorithm>
#include <cmath>

#include "dense.hpp"
#include "dispatch.hpp"
#include "lanes.hpp"

namespace dconnet {

namespace {

// The usual constants of the Wolfe conditions.
constexpr double kDecrease = 1e-4;
constexpr double kCurvature = 0.9;
constexpr int kTrials = 25;
// A decrease below this share of the value is rounding. In single precision rounding is larger, but the short fits of the auto
// estimators still gain from smaller steps than that: 1e-7 would change their networks.
constexpr double kRounding = 1e-15;

// z = y + weight x, and z = y - x.
template <typename Real>
DCONNET_INLINE void add_scaled(std::size_t n, Real weight, const Real* x, const Real* y, Real* z) {
  for (std::size_t i = 0; i < n; ++i) z[i] = y[i] + weight * x[i];
}

template <typename Real>
DCONNET_INLINE void subtract(std::size_t n, const Real* x, const Real* y, Real* z) {
  for (std::size_t i = 0; i < n; ++i) z[i] = y[i] - x[i];
}

}  // namespace

template <typename Real>
LbfgsOf<Real>::LbfgsOf(SmoothOf<Real>& objective, std::size_t memory)
    : objective_(objective),
      memory_(memory),
      slots_(memory + 1),
      size_(objective.size()),
      theta_(size_),
      gradient_(size_),
      trial_(size_),
      trial_gradient_(size_),
      direction_(size_),
      steps_(slots_ * size_),
      changes_(slots_ * size_),
      curvature_(slots_),
      share_(slots_) {}

template <typename Real>
void LbfgsOf<Real>::start(const Real* theta) {
  std::copy(theta, theta + size_, theta_.begin());
  value_ = objective_.gradient(theta_.data(), gradient_.data());
  ++evaluations_;
  stored_ = 0;
}

template <typename Real>
bool LbfgsOf<Real>::run(std::size_t iterations, const std::function<bool()>& proceed) {
  for (std::size_t i = 0; i < iterations; ++i) {
    if (!proceed()) return true;
    choose_direction();
    double slope = dot(gradient_.data(), direction_.data(), size_);
    if (!(slope < 0.0)) {
      if (stored_ == 0) return false;
      stored_ = 0;  // rounding has made the memory inaccurate
      continue;
    }
    if (!search_line(slope)) {
      if (stored_ == 0) return false;
      stored_ = 0;
      continue;
    }
    remember();
  }
  return true;
}

// The two-loop recursion.
template <typename Real>
void LbfgsOf<Real>::choose_direction() {
  for (std::size_t i = 0; i < size_; ++i) direction_[i] = -gradient_[i];
  if (stored_ == 0) {
    const double length = std::sqrt(dot(gradient_.data(), gradient_.data(), size_));
    if (length > 0.0) for (Real& d : direction_) d /= static_cast<Real>(length);
    return;
  }
  for (std::size_t age = 0; age < stored_; ++age) {
    const std::size_t slot = (newest_ + slots_ - age) % slots_;
    share_[slot] = dot(steps_.data() + slot * size_, direction_.data(), size_) / curvature_[slot];
    add(-share_[slot], changes_.data() + slot * size_, direction_.data(), direction_.data());
  }
  const Real* change = changes_.data() + newest_ * size_;
  const Real scale = static_cast<Real>(curvature_[newest_] / dot(change, change, size_));
  for (Real& d : direction_) d *= scale;
  for (std::size_t age = stored_; age-- > 0;) {
    const std::size_t slot = (newest_ + slots_ - age) % slots_;
    const double back = dot(changes_.data() + slot * size_, direction_.data(), size_) / curvature_[slot];
    add(share_[slot] - back, steps_.data() + slot * size_, direction_.data(), direction_.data());
  }
}

template <typename Real>
void LbfgsOf<Real>::add(double weight, const Real* x, const Real* y, Real* z) const {
  fastest<add_scaled<Real>>(size_, static_cast<Real>(weight), x, y, z);
}

// Doubles or halves the step until both conditions hold. Leaves the new point in trial_; false if no step goes down.
template <typename Real>
bool LbfgsOf<Real>::search_line(double slope) {
  double low = 0.0, high = INFINITY, step = 1.0;
  for (int trial = 0; trial < kTrials; ++trial) {
    add(step, direction_.data(), theta_.data(), trial_.data());
    trial_value_ = objective_.gradient(trial_.data(), trial_gradient_.data());
    ++evaluations_;
    if (!(trial_value_ <= value_ + kDecrease * step * slope)) {
      high = step;
    } else if (dot(trial_gradient_.data(), direction_.data(), size_) < kCurvature * slope) {
      low = step;
    } else {
      return trial_value_ < value_ * (1.0 - kRounding);
    }
    step = std::isinf(high) ? 2.0 * low : 0.5 * (low + high);
  }
  return trial_value_ < value_ * (1.0 - kRounding);
}

template <typename Real>
void LbfgsOf<Real>::remember() {
  // No pair is in this slot: a pair that is not accepted for its curvature overwrites none.
  const std::size_t slot = (newest_ + 1) % slots_;
  Real* step = steps_.data() + slot * size_;
  Real* change = changes_.data() + slot * size_;
  fastest<subtract<Real>>(size_, theta_.data(), trial_.data(), step);
  fastest<subtract<Real>>(size_, gradient_.data(), trial_gradient_.data(), change);
  const double curvature = dot(step, change, size_);
  if (curvature > 0.0) {
    curvature_[slot] = curvature;
    newest_ = slot;
    stored_ = std::min(stored_ + 1, memory_);
  }
  theta_.swap(trial_);
  gradient_.swap(trial_gradient_);
  value_ = trial_value_;
}

template class LbfgsOf<double>;
template class LbfgsOf<float>;

}  // namespace dconnet
