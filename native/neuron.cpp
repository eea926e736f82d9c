#include "neuron.hpp"

#include <algorithm>
#include <cmath>

#include "dispatch.hpp"
#include "lanes.hpp"

namespace dconnet {

namespace {

// Marks the rows that are active now; false if they are those that were.
template <typename Rule>
bool renew(std::vector<unsigned char>& marks, const Rule& is_active) {
  unsigned char changed = 0;
  for (std::size_t j = 0; j < marks.size(); ++j) {
    const unsigned char active = is_active(j);
    changed = static_cast<unsigned char>(changed | (active ^ marks[j]));
    marks[j] = active;
  }
  return changed != 0;
}

DCONNET_INLINE double sum_of_hinges(std::size_t rows, const double* beta_g, const double* beta_h, double curvature,
                                    const double* z) {
  Lanes sum = {};
  in_fours(rows, {beta_g, beta_h, z}, [&](const Lanes(&x)[3]) DCONNET_ALWAYS_INLINE {
    Lanes active = {};
    raise_to(active, x[2]);
    sum += (x[0] - x[1] + curvature * active) * active;
  });
  return sum_of(sum);
}

}  // namespace

Neuron::Neuron(Solver& solver)
    : solver_(solver),
      design_(solver.design()),
      candidate_v_(design_.stride()),
      candidate_z_(design_.rows()),
      multipliers_(design_.rows()),
      linear_(design_.stride()),
      pull_(solver.scratch().slopes),
      active_(design_.rows()) {}

void Neuron::improve(const NeuronProblem& problem, const Limits& limits, double* v, double* z, ActiveGram& gram,
                     Tally& tally) {
  const std::size_t rows = design_.rows(), columns = design_.columns();
  if (problem.curvature == 0.0) {  // only the penalty is left: its minimiser is zero
    std::fill(v, v + columns, 0.0);
    std::fill(z, z + rows, 0.0);
    return;
  }
  double objective = value(problem, v, z);
  const double steepest = std::max(max_abs(problem.beta_g, rows), max_abs(problem.beta_h, rows));
  guess_multipliers(problem, z);
  std::copy(v, v + columns, candidate_v_.begin());
  std::copy(z, z + rows, candidate_z_.begin());
  std::fill(active_.begin(), active_.end(), 2);  // no row has been looked at
  bool next = false;  // whether the programme continues from the answer to the last one
  for (std::size_t iteration = 0; iteration < limits.dca_iterations; ++iteration) {
    const bool inexact = limits.share > 0.0;
    // The next programme would be the last one again.
    if (!(inexact ? tangent_rows_with_slope(problem, z) : tangent_rows(z))) return;
    tangent(problem);
    const Programme programme{design_, linear_.data(), problem.beta_g, problem.curvature, problem.gamma};
    const Enough enough{inexact ? dconnet::value(programme, v, z) : 0.0, limits.share};
    const Outcome outcome = solver_.solve(programme, limits.gap, limits.solver_iterations, next, candidate_v_.data(),
                                          candidate_z_.data(), multipliers_.data(), gram, enough);
    ++tally.programmes;
    tally.iterations += outcome.iterations;
    tally.unsolved += !outcome.converged;
    next = !remove_noise(steepest / (2.0 * (problem.gamma + problem.curvature)));
    const double reached = value(problem, candidate_v_.data(), candidate_z_.data());
    if (!(reached <= objective)) {  // also refuses NaN
      tally.refused += !(reached <= objective + lift(problem, z) + rounding(problem, z));
      return;
    }
    double moved = 0.0;
    for (std::size_t k = 0; k < columns; ++k) moved += (candidate_v_[k] - v[k]) * (candidate_v_[k] - v[k]);
    std::copy(candidate_v_.begin(), candidate_v_.begin() + static_cast<std::ptrdiff_t>(columns), v);
    std::copy(candidate_z_.begin(), candidate_z_.end(), z);
    objective = reached;
    if (std::sqrt(moved) < kDcaTolerance) return;
  }
}

double Neuron::value(const NeuronProblem& problem, const double* v, const double* z) const {
  return fastest<sum_of_hinges>(design_.rows(), problem.beta_g, problem.beta_h, problem.curvature, z) +
         problem.gamma * dot(v, v, design_.columns());
}

bool Neuron::tangent_rows(const double* z) {
  const double noise = -kNeuronKinkTolerance * max_abs(z, design_.rows());
  return renew(active_, [&](std::size_t j) { return z[j] >= noise; });
}

bool Neuron::tangent_rows_with_slope(const NeuronProblem& problem, const double* z) {
  const double noise = -kNeuronKinkTolerance * max_abs(z, design_.rows());
  return renew(active_, [&](std::size_t j) { return z[j] >= noise && problem.beta_h[j] > 0.0; });
}

void Neuron::tangent(const NeuronProblem& problem) {
  for (std::size_t j = 0; j < design_.rows(); ++j) pull_[j] = static_cast<double>(active_[j]) * problem.beta_h[j];
  design_.apply_transposed(pull_.data(), linear_.data());
}

// What z dictates for the multipliers, and the middle of their interval for the rows at the kink.
void Neuron::guess_multipliers(const NeuronProblem& problem, const double* z) {
  const double noise = kNeuronKinkTolerance * max_abs(z, design_.rows());
  for (std::size_t j = 0; j < design_.rows(); ++j) {
    const double beta = problem.beta_g[j];
    multipliers_[j] = z[j] > noise ? beta + 2.0 * problem.curvature * z[j] : (z[j] >= -noise ? 0.5 * beta : 0.0);
  }
}

// An answer whose preactivations are nothing next to what the slopes call for is zero.
bool Neuron::remove_noise(double called_for) {
  if (!(max_abs(candidate_z_.data(), design_.rows()) <= kNeuronKinkTolerance * called_for)) return false;  // also NaN
  std::fill(candidate_v_.begin(), candidate_v_.end(), 0.0);
  std::fill(candidate_z_.begin(), candidate_z_.end(), 0.0);
  return true;
}

// How much of the objective may be rounding: a share of it, and of the slopes that cancel in `value`.
double Neuron::rounding(const NeuronProblem& problem, const double* z) const {
  double cancelling = 0.0;
  for (std::size_t j = 0; j < design_.rows(); ++j) {
    if (z[j] > 0.0) cancelling += (problem.beta_g[j] + problem.beta_h[j]) * z[j];
  }
  return kObjectiveRounding * (problem.size + cancelling);
}

// Rows that are negative by noise but count as active lift the majoriser off O by this much.
double Neuron::lift(const NeuronProblem& problem, const double* z) const {
  double sum = 0.0;
  for (std::size_t j = 0; j < design_.rows(); ++j) {
    if (active_[j] && z[j] < 0.0) sum -= problem.beta_h[j] * z[j];
  }
  return sum;
}

}  // namespace dconnet
