// A function of many variables with its gradient, as L-BFGS wants it, in double or single precision.
#pragma once

#include <cstddef>

namespace dconnet {

template <typename Real>
class SmoothOf {
 public:
  virtual ~SmoothOf() = default;
  virtual std::size_t size() const = 0;
  // Writes the gradient at theta and returns the value there.
  virtual double gradient(const Real* theta, Real* gradient) = 0;
};

using Smooth = SmoothOf<double>;

}  // namespace dconnet
