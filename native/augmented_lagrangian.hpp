// Augmented Lagrangian method with semismooth Newton steps (SSNAL) for the convex programme.
//
// The constraint z = Q v is moved into the objective with multipliers and a penalty; what is left is a smooth,
// piecewise quadratic function of the n + 1 unknowns v, minimised by Newton's method with a line search. With a good
// start it needs a handful of Newton steps, each of them two passes over the design.
#pragma once

#include <cstddef>
#include <vector>

#include "active_gram.hpp"
#include "programme.hpp"
#include "scratch.hpp"

namespace dconnet {

class AugmentedLagrangian {
 public:
  AugmentedLagrangian(const Design& design, ActiveGram::Room& room, Scratch& scratch);

  // Improves (v, multipliers) in place until z = Q v holds to `tolerance` (absolute: the programme is expected in
  // units in which its numbers are of order one). Returns the number of Newton steps; at most `max_steps` are made. `penalty` is the first penalty; `gram` may hold any set of rows of the design.
  std::size_t solve(const Programme& programme, double tolerance, std::size_t max_steps, double penalty, double* v,
                    double* multipliers, ActiveGram& gram);

 private:
  void evaluate(const Programme& programme, const double* v, const double* multipliers);
  bool newton_direction(const Programme& programme, ActiveGram& gram);
  double step_length(const Programme& programme, const double* v, const double* multipliers);
  double slope_along(const Programme& programme, const double* multipliers, double tau, double linear,
                     double quadratic) const;
  double update_multipliers(double* multipliers) const;

  const Design& design_;
  double penalty_ = 1.0;
  std::vector<double>&z_, &derivative_, &along_;        // rows
  std::vector<unsigned char> active_;                   // rows beyond their kink
  std::vector<double> gradient_, direction_, hessian_;  // columns
  ActiveGram::Room& room_;
};

}  // namespace dconnet
