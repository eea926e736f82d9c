// L-BFGS, with a line search for the weak Wolfe conditions, which also works
// where the function has kinks.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "lanes.hpp"

namespace dconnet {

// A function of many variables with its gradient, in double or single precision.
template <typename Real>
class SmoothOf {
 public:
  virtual ~SmoothOf() = default;
  virtual std::size_t size() const = 0;
  // Writes the gradient at theta and returns the value there.
  virtual double gradient(const Real* theta, Real* gradient) = 0;
};

using Smooth = SmoothOf<double>;

// In the precision of the function.
template <typename Real>
class LbfgsOf {
 public:
  LbfgsOf(SmoothOf<Real>& objective, std::size_t memory);

  // Starts from theta, without memory.
  void start(const Real* theta);
  // Up to this many iterations; fewer if there is no way down any more, or `proceed` says no. True if there still is.
  bool run(std::size_t iterations, const std::function<bool()>& proceed);

  const Real* theta() const { return theta_.data(); }
  double value() const { return value_; }
  // Evaluations of the objective since the object was made.
  std::size_t evaluations() const { return evaluations_; }

 private:
  void choose_direction();
  void add(double weight, const Real* x, const Real* y, Real* z) const;  // z = y + weight x
  bool search_line(double slope);
  void remember();

  SmoothOf<Real>& objective_;
  std::size_t memory_, slots_, size_;  // one slot more than there are pairs
  std::size_t stored_ = 0, newest_ = 0;
  std::size_t evaluations_ = 0;
  double value_ = 0.0, trial_value_ = 0.0;
  Aligned<Real> theta_, gradient_, trial_, trial_gradient_, direction_;
  Aligned<Real> steps_, changes_;  // (slots, size): of the weights and of the gradient
  std::vector<double> curvature_, share_;  // (slots)
};

using Lbfgs = LbfgsOf<double>;

}  // namespace dconnet
