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
// A decrease below this share of the value is rounding.
constexpr double kRounding = 1e-15;

DCONNET_INLINE void add_scaled(std::size_t n, double weight, const double* x, double* y) {
  for (std::size_t i = 0; i < n; ++i) y[i] += weight * x[i];
}

}  // namespace

Lbfgs::Lbfgs(Smooth& objective, std::size_t memory)
    : objective_(objective),
      memory_(memory),
      size_(objective.size()),
      theta_(size_),
      gradient_(size_),
      trial_(size_),
      trial_gradient_(size_),
      direction_(size_),
      steps_(memory * size_),
      changes_(memory * size_),
      curvature_(memory),
      share_(memory) {}

void Lbfgs::start(const double* theta) {
  std::copy(theta, theta + size_, theta_.begin());
  value_ = objective_.gradient(theta_.data(), gradient_.data());
  ++evaluations_;
  stored_ = 0;
}

bool Lbfgs::run(std::size_t iterations, const std::function<bool()>& proceed) {
  for (std::size_t i = 0; i < iterations; ++i) {
    if (!proceed()) return true;
    choose_direction();
    double slope = dot(gradient_.data(), direction_.data(), size_);
    if (!(slope < 0.0)) {
      if (stored_ == 0) return false;
      stored_ = 0;  // rounding has spoilt the memory
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
void Lbfgs::choose_direction() {
  for (std::size_t i = 0; i < size_; ++i) direction_[i] = -gradient_[i];
  if (stored_ == 0) {
    const double length = std::sqrt(dot(gradient_.data(), gradient_.data(), size_));
    if (length > 0.0) for (double& d : direction_) d /= length;
    return;
  }
  for (std::size_t age = 0; age < stored_; ++age) {
    const std::size_t slot = (newest_ + memory_ - age) % memory_;
    share_[slot] = dot(steps_.data() + slot * size_, direction_.data(), size_) / curvature_[slot];
    fastest<add_scaled>(size_, -share_[slot], changes_.data() + slot * size_, direction_.data());
  }
  const double* change = changes_.data() + newest_ * size_;
  const double scale = curvature_[newest_] / dot(change, change, size_);
  for (double& d : direction_) d *= scale;
  for (std::size_t age = stored_; age-- > 0;) {
    const std::size_t slot = (newest_ + memory_ - age) % memory_;
    const double back = dot(changes_.data() + slot * size_, direction_.data(), size_) / curvature_[slot];
    fastest<add_scaled>(size_, share_[slot] - back, steps_.data() + slot * size_, direction_.data());
  }
}

// Doubles or halves the step until both conditions hold. Leaves the new point in trial_; false if no step goes down.
bool Lbfgs::search_line(double slope) {
  double low = 0.0, high = INFINITY, step = 1.0;
  for (int trial = 0; trial < kTrials; ++trial) {
    for (std::size_t i = 0; i < size_; ++i) trial_[i] = theta_[i] + step * direction_[i];
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

void Lbfgs::remember() {
  const std::size_t slot = stored_ == 0 ? 0 : (newest_ + 1) % memory_;
  double* step = steps_.data() + slot * size_;
  double* change = changes_.data() + slot * size_;
  for (std::size_t i = 0; i < size_; ++i) {
    step[i] = trial_[i] - theta_[i];
    change[i] = trial_gradient_[i] - gradient_[i];
  }
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

}  // namespace dconnet
