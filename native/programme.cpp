#include "programme.hpp"

#include <algorithm>
#include <cmath>

namespace dconnet {

double value(const Programme& programme, const double* v, const double* z) {
  const std::size_t columns = programme.design.columns();
  double sum = programme.gamma * dot(v, v, columns) - dot(programme.linear, v, columns);
  for (std::size_t j = 0; j < programme.design.rows(); ++j) {
    const double active = std::max(z[j], 0.0);
    sum += (programme.slope[j] + programme.curvature * active) * active;
  }
  return sum;
}

Certificate Certifier::certify(const Programme& programme, const double* v, const double* z, const double* multipliers,
                               double gap_tolerance) {
  programme.design.apply_transposed(multipliers, pull_.data());
  Certificate certificate{relative_gap(programme, v, z, multipliers), kkt_residual(programme, v, z, multipliers)};
  if (!(certificate.gap <= gap_tolerance)) {
    // Any multipliers not below zero bound P; those that v allows avoid the rounding of lambda - beta.
    for (std::size_t j = 0; j < programme.design.rows(); ++j) {
      const double allowed = programme.slope[j] + 2.0 * programme.curvature * std::max(z[j], 0.0);
      trimmed_[j] = std::min(std::max(multipliers[j], 0.0), allowed);
    }
    programme.design.apply_transposed(trimmed_.data(), pull_.data());
    certificate.gap = std::min(certificate.gap, relative_gap(programme, v, z, trimmed_.data()));
  }
  return certificate;
}

double Certifier::relative_gap(const Programme& programme, const double* v, const double* z,
                               const double* multipliers) const {
  const Design& design = programme.design;
  const std::size_t columns = design.columns();
  const double reached = value(programme, v, z);
  double excess = 0.0, steepest = 0.0, below = 0.0;
  for (std::size_t j = 0; j < design.rows(); ++j) {
    const double beta = programme.slope[j];
    const double over = std::max(multipliers[j] - beta, 0.0);
    excess += over * over;
    steepest = std::max(steepest, beta);
    below = std::min(below, multipliers[j]);
  }
  if (below < 0.0) return INFINITY;  // no bound
  double defect = 0.0;
  for (std::size_t k = 0; k < columns; ++k) {
    const double difference = programme.linear[k] - pull_[k];
    defect += difference * difference;
  }
  const double bound = -defect / (4.0 * programme.gamma) - excess / (4.0 * programme.curvature);
  const double size = dot(programme.linear, programme.linear, columns) + steepest * steepest;
  const double unit = std::fabs(reached) + size / (4.0 * (programme.gamma + programme.curvature));
  return unit == 0.0 ? 0.0 : (reached - bound) / unit;
}

// lambda_j is a slope of phi_j at z_j exactly if z_j is a fixed point of the proximal map at z_j + lambda_j / hessian.
double Certifier::kkt_residual(const Programme& programme, const double* v, const double* z,
                               const double* multipliers) const {
  const Design& design = programme.design;
  const double hessian = 2.0 * (programme.gamma + programme.curvature);
  const double softened = hessian / (hessian + 2.0 * programme.curvature);
  double violation = 0.0, largest = max_abs(programme.linear, design.columns());
  for (std::size_t j = 0; j < design.rows(); ++j) {
    const double pull = hessian * z[j] + multipliers[j], beta = programme.slope[j];
    const double fixed = pull <= 0.0 ? pull : (pull > beta ? softened * (pull - beta) : 0.0);
    violation = std::max(violation, std::fabs(hessian * z[j] - fixed));
    largest = std::max(largest, std::fabs(multipliers[j]));
  }
  for (std::size_t k = 0; k < design.columns(); ++k) {
    const double gradient = 2.0 * programme.gamma * v[k] - programme.linear[k] + pull_[k];
    violation = std::max(violation, std::fabs(gradient));
  }
  if (!std::isfinite(violation)) return INFINITY;
  return largest == 0.0 ? 0.0 : violation / largest;
}

}  // namespace dconnet
