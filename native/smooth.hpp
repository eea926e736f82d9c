// A function of many variables with its gradient, as L-BFGS wants it.
#pragma once

#include <cstddef>

namespace dconnet {

class Smooth {
 public:
  virtual ~Smooth() = default;
  virtual std::size_t size() const = 0;
  // Writes the gradient at theta and returns the value there.
  virtual double gradient(const double* theta, double* gradient) = 0;
};

}  // namespace dconnet
