#include "all_rows.hpp"

#include <algorithm>
#include <cmath>

#include "neuron_rows_pass.hpp"

namespace dconnet {

namespace {

// Marks the rows in the tangent, writes their weights, and counts those that were not marked so before.
DCONNET_INLINE double mark(std::size_t rows, double noise, const double* norms, const double* beta_h, const double* z,
                           const unsigned char* before, unsigned char* marks, double* weights) {
  std::size_t changed = 0;
  for (std::size_t j = 0; j < rows; ++j) {
    const unsigned char is = z[j] >= -noise * norms[j];
    changed += is != before[j];
    marks[j] = is;
    weights[j] = is ? beta_h[j] : 0.0;
  }
  return static_cast<double>(changed);
}

}  // namespace

SolverOverAll::SolverOverAll(const Design& design, Team* team)
    : solver_(Design::view(design.row(0), design.rows(), design.columns()), team),
      gram_(solver_.design()),
      multipliers_(design.rows()) {}

void SolverOverAll::forget() {
  solver_.forget();
  gram_.clear();
}

Outcome SolverOverAll::solve(const Programme& programme, const Limits& limits, bool next, double* v, double* z) {
  if (!next) guess_multipliers(programme, z);
  return solver_.solve(programme, limits.gap, limits.solver_iterations, next, {v, z, multipliers_.data()}, gram_);
}

// What z dictates for the multipliers, and the middle of their interval for the rows at the kink.
void SolverOverAll::guess_multipliers(const Programme& programme, const double* z) {
  const double noise = kNeuronKinkTolerance * max_abs(z, multipliers_.size());
  for (std::size_t j = 0; j < multipliers_.size(); ++j) {
    const double beta = programme.slope[j];
    multipliers_[j] = z[j] > noise ? beta + 2.0 * programme.curvature * z[j] : (z[j] >= -noise ? 0.5 * beta : 0.0);
  }
}

AllRows::AllRows(NeuronRows& rows)
    : rows_(rows),
      solver_(rows.design(), rows.team()),
      trial_z_(rows.rows()),
      weights_(rows.rows()),
      marks_(rows.rows()),
      trial_marks_(rows.rows()),
      tangent_(rows.stride()),
      trial_tangent_(rows.stride()),
      net_slopes_(rows.rows()),
      no_tangent_(rows.stride()),
      sums_(rows.leaves(), kSums),
      tangents_(rows.leaves(), rows.stride()) {}

Evaluation AllRows::open(const NeuronProblem& problem, const Limits& limits, const double* v) {
  problem_ = problem;
  limits_ = limits;
  solver_.forget();
  steepest_ = rows_.open(problem.alpha, v, problem.split, problem.kinks, sums_);
  std::fill(marks_.begin(), marks_.end(), static_cast<unsigned char>(2));  // equal to no mark
  trial_z_.swap(rows_.z());
  const Evaluation found = evaluate_trial(v, true);
  accept(found);
  return found;
}

Outcome AllRows::descend(const double* v, double* answer) {
  for (std::size_t j = 0; j < rows_.rows(); ++j) net_slopes_[j] = rows_.beta_g()[j] - rows_.beta_h()[j];
  const Programme own{rows_.design(), no_tangent_.data(), net_slopes_.data(), problem_.curvature, problem_.gamma, nullptr, false};
  std::copy_n(v, rows_.stride(), answer);
  std::copy(rows_.z().begin(), rows_.z().end(), trial_z_.begin());
  return solver_.descend(own, limits_.solver_iterations, answer, trial_z_.data());
}

Outcome AllRows::solve(const double* v, bool next, double* answer) {
  const Programme programme{rows_.design(), tangent_.data(), rows_.beta_g(), problem_.curvature, problem_.gamma};
  std::copy_n(v, rows_.stride(), answer);
  std::copy(rows_.z().begin(), rows_.z().end(), trial_z_.begin());
  return solver_.solve(programme, limits_, next, answer, trial_z_.data());
}

Evaluation AllRows::evaluate(const double* trial, bool is_answer) { return evaluate_trial(trial, is_answer); }

Evaluation AllRows::evaluate_trial(const double* v, bool known) {
  const Design& design = rows_.design();
  const std::size_t stride = design.stride();
  const double noise = rows_.kink_noise(v);
  rows_.all().each([&](const Leaf& leaf, std::size_t i, std::size_t) {
    double* sums = sums_.clear(i);
    double* tangent = tangents_.clear(i);
    const std::size_t tile = known ? leaf.count : kTile;  // with z known, rows are needed once
    for (std::size_t first = leaf.first; first < leaf.end(); first += tile) {
      const std::size_t count = std::min(tile, leaf.end() - first);
      double* z = trial_z_.data() + first;
      const double* beta_h = rows_.beta_h() + first;
      if (!known) multiply(design.row(first), count, stride, v, z);
      fastest<add_hinges<false>>(count, rows_.beta_g() + first, beta_h, problem_.curvature, z, sums);
      sums[kChangedRows] += fastest<mark>(count, noise, rows_.kink_norms() + first, beta_h, z, marks_.data() + first,
                                    trial_marks_.data() + first, weights_.data() + first);
      add_transposed(design.row(first), count, stride, weights_.data() + first, tangent);
    }
  });
  double sums[kSums];
  sums_.merge(sums);
  tangents_.merge(trial_tangent_.data());
  return {sums[kHinges], sums[kConvexHinges], sums_.largest(kLargest), static_cast<std::size_t>(sums[kChangedRows])};
}

void AllRows::accept(const Evaluation& found) {
  hinges_ = found.hinges;
  rows_.z().swap(trial_z_);
  marks_.swap(trial_marks_);
  tangent_.swap(trial_tangent_);
}

double AllRows::rounding(const double*) {
  double cancelling = 0.0, lift = 0.0;
  for (std::size_t j = 0; j < rows_.rows(); ++j) {
    const double z = rows_.z()[j];
    if (z > 0.0) cancelling += (rows_.beta_g()[j] + rows_.beta_h()[j]) * z;
    if ((marks_[j] != 0) != (z >= 0.0)) lift += rows_.beta_h()[j] * std::fabs(z);
  }
  return lift + kObjectiveRounding * (problem_.size + cancelling);
}

// At the current point all rows were evaluated already.
double AllRows::certify(const double* v) {
  if (max_abs(v, rows_.columns()) == 0.0) {
    std::fill(rows_.z().begin(), rows_.z().end(), 0.0);
    hinges_ = 0.0;
  }
  return hinges_;
}

}  // namespace dconnet
