// Augmented Lagrangian method with semismooth Newton steps (SSNAL) for the convex programme.
//
// The constraint z = Q v is moved into the objective with multipliers and a penalty; what is left is a smooth,
// piecewise quadratic function of the n + 1 unknowns v, minimised by Newton's method with a line search. Unlike the walk it
// needs no independent rows at the kinks: it settles the programmes whose solution is where many rows meet.
#pragma once

#include <cstddef>
#include <vector>

#include "active_gram.hpp"
#include "programme.hpp"

namespace dconnet {

class AugmentedLagrangian {
 public:
  AugmentedLagrangian(const Design& design, ActiveGram::Changes& changes, Scratch& scratch);

  // Sets the function that is asked before each step whether to proceed; null means always.
  void watch(const Proceed* proceed) { proceed_ = proceed; }

  // Improves (v, multipliers) in place until z = Q v holds to rounding, there is no progress, or `max_steps` are made:
  // Newton steps and updates of the multipliers. Returns their number. `gram` may hold any set of rows of the design.
  std::size_t solve(const Programme& programme, std::size_t max_steps, double* v, double* multipliers,
                    ActiveGram& gram);

 private:
  std::size_t solve_in_units(const Programme& programme, std::size_t max_steps, double* v, double* multipliers,
                             ActiveGram& gram);
  void start(const Programme& programme, double* v, double* multipliers);
  bool minimise(const Programme& programme, std::size_t max_steps, double* v, const double* multipliers,
                ActiveGram& gram, std::size_t& steps);
  void evaluate(const Programme& programme, const double* v, const double* multipliers);
  bool newton_direction(const Programme& programme, ActiveGram& gram);
  double step_length(const Programme& programme, const double* v, const double* multipliers);
  double slope_along(const Programme& programme, const double* multipliers, double tau, double linear,
                     double quadratic) const;
  double update_multipliers(double* multipliers) const;

  const Design& design_;
  const Proceed* proceed_ = nullptr;
  double penalty_ = 1.0;
  std::vector<double>&z_, &derivative_, &along_;        // rows
  std::vector<unsigned char> active_;                   // rows beyond their kink
  std::vector<double> gradient_, direction_, hessian_;  // columns
  std::vector<double> linear_, slope_;                  // of the programme, in units of order one
  ActiveGram::Changes& changes_;
};

}  // namespace dconnet
