// The solver of convex programmes over one design: units, choice of method, and the check of the answer.
#pragma once

#include <cstddef>
#include <vector>

#include "augmented_lagrangian.hpp"
#include "interior_point.hpp"
#include "programme.hpp"

namespace dconnet {

struct Outcome {
  std::size_t iterations;
  bool converged;  // to the tolerance in both the duality gap and the optimality conditions
};

class Solver {
 public:
  Solver(const double* design, std::size_t rows, std::size_t columns);
  Solver(const Solver&) = delete;  // its parts refer to its own design
  Solver& operator=(const Solver&) = delete;

  const Design& design() const { return design_; }

  // `v` and `multipliers` hold a start on entry and the answer on return; v has design().columns() entries.
  Outcome solve(const double* linear, const double* slope, double curvature, double gamma, double tolerance,
                std::size_t max_iterations, double* v, double* multipliers) {
    return solve(linear, slope, curvature, gamma, tolerance, max_iterations, v, multipliers, gram_);
  }

  // The same, with the Gram matrix of an earlier solution that is like this one.
  Outcome solve(const double* linear, const double* slope, double curvature, double gamma, double tolerance,
                std::size_t max_iterations, double* v, double* multipliers, ActiveGram& gram);

 private:
  Design design_;
  ActiveGram gram_;
  AugmentedLagrangian augmented_lagrangian_;
  InteriorPoint interior_point_;
  Certifier certifier_;
  std::vector<double> linear_, slope_, v_, multipliers_;
};

}  // namespace dconnet
