#include "programme.hpp"

#include <algorithm>
#include <cmath>

namespace dconnet {

Certificate Certifier::certify(const Programme& programme, const double* v, const double* multipliers) {
  programme.design.apply(v, z_.data());
  const double gap = relative_gap(programme, v, multipliers);
  return {gap, kkt_residual(programme, v, multipliers)};
}

double Certifier::relative_gap(const Programme& programme, const double* v, const double* multipliers) {
  const Design& design = programme.design;
  const std::size_t columns = design.columns();
  double value = programme.gamma * dot(v, v, columns) - dot(programme.linear, v, columns);
  double excess = 0.0, steepest = 0.0;
  for (std::size_t j = 0; j < design.rows(); ++j) {
    const double active = std::max(z_[j], 0.0), beta = programme.slope[j];
    value += (beta + programme.curvature * active) * active;
    // Any multipliers not below zero bound P; those that v allows avoid the rounding of lambda - beta.
    const double allowed = beta + 2.0 * programme.curvature * active;
    trimmed_[j] = std::min(std::max(multipliers[j], 0.0), allowed);
    const double over = std::max(trimmed_[j] - beta, 0.0);
    excess += over * over;
    steepest = std::max(steepest, beta);
  }
  design.apply_transposed(trimmed_.data(), defect_.data());
  for (std::size_t k = 0; k < columns; ++k) defect_[k] = programme.linear[k] - defect_[k];
  const double bound = -dot(defect_.data(), defect_.data(), columns) / (4.0 * programme.gamma) -
                       excess / (4.0 * programme.curvature);
  const double pull = dot(programme.linear, programme.linear, columns) + steepest * steepest;
  const double unit = std::fabs(value) + pull / (4.0 * (programme.gamma + programme.curvature));
  return unit == 0.0 ? 0.0 : (value - bound) / unit;
}

// lambda_j is a slope of phi_j at z_j exactly if z_j is a fixed point of the proximal map at z_j + lambda_j / hessian.
double Certifier::kkt_residual(const Programme& programme, const double* v, const double* multipliers) {
  const Design& design = programme.design;
  const double hessian = 2.0 * (programme.gamma + programme.curvature);
  double violation = 0.0, largest = max_abs(programme.linear, design.columns());
  for (std::size_t j = 0; j < design.rows(); ++j) {
    const double pull = hessian * z_[j] + multipliers[j], beta = programme.slope[j];
    const double fixed = pull <= 0.0   ? pull
                         : pull > beta ? hessian * (pull - beta) / (hessian + 2.0 * programme.curvature)
                                       : 0.0;
    violation = std::max(violation, std::fabs(hessian * z_[j] - fixed));
    largest = std::max(largest, std::fabs(multipliers[j]));
  }
  design.apply_transposed(multipliers, defect_.data());
  for (std::size_t k = 0; k < design.columns(); ++k) {
    const double gradient = 2.0 * programme.gamma * v[k] - programme.linear[k] + defect_[k];
    violation = std::max(violation, std::fabs(gradient));
  }
  if (!std::isfinite(violation)) return INFINITY;
  return largest == 0.0 ? 0.0 : violation / largest;
}

}  // namespace dconnet
