#include "solver.hpp"

#include <algorithm>
#include <cmath>

namespace dconnet {

namespace {

// Newton steps that the augmented Lagrangian may take before the interior point takes over.
constexpr std::size_t kNewtonSteps = 60;
// How closely the augmented Lagrangian fulfils the optimality conditions, in units of order one.
constexpr double kOptimality = 1e-13;
constexpr double kFirstPenalty = 100.0;
// Violation of the optimality conditions with which an answer still counts as solved.
constexpr double kAcceptedKkt = 1e-9;
// Where the interior point hands over to the augmented Lagrangian for the last digits.
constexpr double kInteriorGap = 1e-12;
// From an answer of the interior point, the multipliers are nearly right and a stiff penalty does no harm.
constexpr double kPolishPenalty = 1e4;

}  // namespace

Solver::Solver(const double* design, std::size_t rows, std::size_t columns)
    : design_(design, rows, columns),
      gram_(design_),
      augmented_lagrangian_(design_),
      interior_point_(design_),
      certifier_(design_),
      linear_(design_.stride()),
      slope_(rows),
      v_(design_.stride()),
      multipliers_(rows) {}

Outcome Solver::solve(const double* linear, const double* slope, double curvature, double gamma, double tolerance,
                      std::size_t max_iterations, double* v, double* multipliers, ActiveGram& gram) {
  const std::size_t rows = design_.rows(), columns = design_.columns();
  const double gradient_unit = max_abs(linear, columns);
  if (gradient_unit == 0.0) {  // nothing pulls away from zero
    std::fill(v, v + columns, 0.0);
    std::fill(multipliers, multipliers + rows, 0.0);
    return {0, true};
  }
  // Units in which the largest entry of t and the largest possible curvature are one.
  const double hessian = gamma + curvature;
  const double length_unit = gradient_unit / hessian;
  for (std::size_t k = 0; k < columns; ++k) {
    linear_[k] = linear[k] / gradient_unit;
    v_[k] = v[k] / length_unit;
  }
  for (std::size_t j = 0; j < rows; ++j) {
    slope_[j] = slope[j] / gradient_unit;
    multipliers_[j] = std::max(multipliers[j] / gradient_unit, 0.0);
  }
  const Programme programme{design_, linear_.data(), slope_.data(), curvature / hessian, gamma / hessian};

  std::size_t iterations =
      augmented_lagrangian_.solve(programme, kOptimality, std::min(kNewtonSteps, max_iterations), kFirstPenalty,
                                  v_.data(), multipliers_.data(), gram);
  Certificate certificate = certifier_.certify(programme, v_.data(), multipliers_.data());
  if (!certificate.meets(tolerance, kAcceptedKkt) && iterations < max_iterations) {
    iterations += interior_point_.solve(programme, kInteriorGap, max_iterations - iterations, v_.data(),
                                        multipliers_.data(), certifier_);
    if (iterations < max_iterations) {
      iterations += augmented_lagrangian_.solve(programme, kOptimality, max_iterations - iterations, kPolishPenalty,
                                                v_.data(), multipliers_.data(), gram);
    }
    certificate = certifier_.certify(programme, v_.data(), multipliers_.data());
  }
  for (std::size_t k = 0; k < columns; ++k) v[k] = v_[k] * length_unit;
  for (std::size_t j = 0; j < rows; ++j) multipliers[j] = multipliers_[j] * gradient_unit;
  return {iterations, certificate.meets(tolerance, kAcceptedKkt)};
}

}  // namespace dconnet
