#include "programme.hpp"

#include <algorithm>
#include <cmath>

#include "dispatch.hpp"
#include "lanes.hpp"

namespace dconnet {

namespace {

DCONNET_INLINE double sum_of_hinges(std::size_t rows, const double* slope, double curvature, const double* z) {
  Lanes sum = {};
  in_fours(rows, {slope, z}, [&](const Lanes(&x)[2]) DCONNET_ALWAYS_INLINE {
    Lanes active = {};
    raise_to(active, x[1]);
    sum += (x[0] + curvature * active) * active;
  });
  return sum_of(sum);
}

// What the multipliers make of a bound: the squares of what is beyond their slopes, and the least of them, if negative.
struct Multipliers {
  double excess, least;
};

DCONNET_INLINE void add_up(std::size_t rows, const double* slope, const double* multipliers, Multipliers& total) {
  Lanes squares = {}, below = {};
  in_fours(rows, {slope, multipliers}, [&](const Lanes(&x)[2]) DCONNET_ALWAYS_INLINE {
    Lanes over = {};
    raise_to(over, x[1] - x[0]);
    squares += over * over;
    raise_to(below, -x[1]);
  });
  total = {sum_of(squares), -largest_of(below)};
}

// lambda_j is a slope of phi_j at z_j exactly if z_j is a fixed point of the proximal map at z_j + lambda_j / hessian.
DCONNET_INLINE double largest_violation(std::size_t rows, const double* slope, double curvature, double hessian,
                                        const double* z, const double* multipliers) {
  const double softened = hessian / (hessian + 2.0 * curvature);
  Lanes violation = {};
  in_fours(rows, {slope, z, multipliers}, [&](const Lanes(&x)[3]) DCONNET_ALWAYS_INLINE {
    const Lanes moved = hessian * x[1], pull = moved + x[2];
    Lanes beyond = {};
    raise_to(beyond, pull - x[0]);
    const Lanes off = moved - (pull > 0.0 ? softened * beyond : pull);
    raise_to_size(violation, off);
  });
  return largest_of(violation);
}

}  // namespace

double value(const Programme& programme, const double* v, const double* z) {
  const std::size_t columns = programme.design.columns();
  const double left_out =
      programme.base ? programme.curvature * symmetric_form(programme.base, programme.design.stride(), v) : 0.0;
  return programme.gamma * dot(v, v, columns) + left_out - dot(programme.linear, v, columns) +
         fastest<sum_of_hinges>(programme.design.rows(), programme.slope, programme.curvature, z);
}

Certificate Certifier::certify(const Programme& programme, const Iterate& at, double gap_tolerance) {
  pull(programme, at.v, at.multipliers);
  Certificate certificate{relative_gap(programme, at), kkt_residual(programme, at)};
  if (!(certificate.gap <= gap_tolerance)) {
    // Any multipliers not below zero bound P; those that v allows avoid the rounding of lambda - beta.
    for (std::size_t j = 0; j < programme.design.rows(); ++j) {
      const double allowed = programme.slope[j] + 2.0 * programme.curvature * std::max(at.z[j], 0.0);
      trimmed_[j] = std::min(std::max(at.multipliers[j], 0.0), allowed);
    }
    pull(programme, at.v, trimmed_.data());
    certificate.gap = std::min(certificate.gap, relative_gap(programme, {at.v, at.z, trimmed_.data()}));
  }
  return certificate;
}

// What the rows add to the gradient, those that are left out included.
void Certifier::pull(const Programme& programme, const double* v, const double* multipliers) {
  programme.design.apply_transposed(multipliers, pull_.data());
  if (programme.base == nullptr) return;
  multiply_symmetric(programme.base, programme.design.stride(), v, product_.data());
  for (std::size_t k = 0; k < pull_.size(); ++k) pull_[k] += 2.0 * programme.curvature * product_[k];
}

double Certifier::relative_gap(const Programme& programme, const Iterate& at) const {
  const Design& design = programme.design;
  const std::size_t columns = design.columns();
  const double reached = value(programme, at), steepest = max_abs(programme.slope, design.rows());
  Multipliers total;
  fastest<add_up>(design.rows(), programme.slope, at.multipliers, total);
  if (total.least < 0.0) return INFINITY;  // no bound
  double defect = 0.0;
  for (std::size_t k = 0; k < columns; ++k) {
    const double difference = programme.linear[k] - pull_[k];
    defect += difference * difference;
  }
  // With v in the place of the multipliers of rows that are left out, a vᵀ B v is that of their squares.
  const double left_out =
      programme.base ? programme.curvature * symmetric_form(programme.base, design.stride(), at.v) : 0.0;
  const double bound = -left_out - defect / (4.0 * programme.gamma) - total.excess / (4.0 * programme.curvature);
  const double size = dot(programme.linear, programme.linear, columns) + steepest * steepest;
  const double unit = std::fabs(reached) + size / (4.0 * (programme.gamma + programme.curvature));
  return unit == 0.0 ? 0.0 : (reached - bound) / unit;
}

double Certifier::kkt_residual(const Programme& programme, const Iterate& at) const {
  const Design& design = programme.design;
  const double hessian = 2.0 * (programme.gamma + programme.curvature);
  const double largest = std::max(max_abs(programme.linear, design.columns()), max_abs(at.multipliers, design.rows()));
  double violation =
      fastest<largest_violation>(design.rows(), programme.slope, programme.curvature, hessian, at.z, at.multipliers);
  for (std::size_t k = 0; k < design.columns(); ++k) {
    const double gradient = 2.0 * programme.gamma * at.v[k] - programme.linear[k] + pull_[k];
    violation = larger(violation, std::fabs(gradient));
  }
  if (!std::isfinite(violation)) return INFINITY;
  return largest == 0.0 ? 0.0 : violation / largest;
}

}  // namespace dconnet
