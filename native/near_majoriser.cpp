#include "near_majoriser.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

namespace dconnet {

namespace {

// If far rows still change sides after this many rounds, the programme is solved over all rows.
constexpr std::size_t kMostRounds = 20;
// Steps of a walk after which a pass over the rows is worth its cost: far rows that have changed sides would make further steps
// useless. Then twice as many, and so on. From 32 to 64 makes little difference.
constexpr std::size_t kFirstSteps = 48;
// The same for a walk on O, which is longer, and goes further: not twice as many later. On MNIST (42,000 x 101, 30 neurons, first
// epoch) the walks take 14,332 steps with 24, 11,631 with 10, 16,653 with 32, in the same time, and 25,147 if 48 are doubled.
constexpr std::size_t kStepsOnObjective = 24;
constexpr int kMostHalvings = 20;

}  // namespace

NearMajoriser::NearMajoriser(NeuronRows& passes)
    : far_(passes),
      near_(far_),
      origin_(passes),
      tangent_(passes.stride()),
      trial_tangent_(passes.stride()),
      lowest_(passes.stride()) {}

void NearMajoriser::watch(const Proceed* proceed) {
  watch_ = proceed;
  near_.watch(proceed);
  if (all_) all_->watch(proceed);
}

Evaluation NearMajoriser::open(const NeuronProblem& problem, const Limits& limits, const double* v) {
  problem_ = problem;
  limits_ = limits;
  const FarRows::Totals found = far_.open(problem.alpha, v, problem.split, problem.kinks);
  near_.open(problem.kinks);
  std::copy_n(far_.tangent(), tangent_.size(), tangent_.data());
  steepest_ = found.steepest;
  source_ = Source::kAllRows;
  far_rows_changed_ = false;
  return current_ = {found.hinges, found.convex_hinges, found.largest, far_.passes().rows()};
}

// As `solve_over_near`, but any end will do: what is left to gain is left to the programmes.
Outcome NearMajoriser::descend(const double* v, double* answer) {
  Outcome outcome{0, false};
  recentred_ = false;
  descends_ = true;
  lowest_value_ = value(v, current_);
  std::copy_n(v, lowest_.size(), lowest_.data());
  std::copy_n(v, lowest_.size(), answer);
  trial_source_ = Source::kNearRows;
  bool can_continue = true, next = false;
  if (source_ == Source::kAllRows || far_rows_changed_) can_continue = centre(v);
  while (can_continue && outcome.iterations < limits_.solver_iterations) {
    const Outcome end = near_.descend(problem_.curvature, problem_.gamma, kStepsOnObjective, next, answer);
    outcome = {outcome.iterations + end.iterations, end.converged, end.method};
    const std::size_t n_changed = far_.recheck_far(answer);
    next = true;
    if (n_changed == 0) {
      can_continue = is_lower(answer, evaluate_near(answer)) && end.out_of_steps;
    } else {
      far_rows_changed_ = true;
      can_continue = add_changed(v, n_changed, next, answer);
    }
  }
  descends_ = far_rows_changed_ = false;
  source_ = Source::kAllRows;  // unless the end is accepted, the near rows belong to another point than the current one
  std::copy_n(lowest_.data(), lowest_.size(), answer);
  changed_ = far_.passes().rows();
  return outcome;
}

Outcome NearMajoriser::solve(const double* v, bool next, double* answer) {
  Outcome outcome{0, false};
  recentred_ = false;
  trial_source_ = Source::kNearRows;
  std::copy_n(v, tangent_.size(), answer);
  if (max_abs(tangent_.data(), tangent_.size()) == 0.0) return end_at_zero(answer, 0);  // nothing pulls away from there
  if (solve_over_near(v, next, answer, outcome)) return outcome;
  if (max_abs(answer, tangent_.size()) == 0.0 && solve_at_zero(v, answer, outcome)) return outcome;
  const std::size_t used = outcome.iterations;
  trial_source_ = Source::kAllRows;
  if (max_abs(answer, tangent_.size()) > 0.0) std::copy_n(v, tangent_.size(), answer);
  outcome = solve_over_all(v, answer);
  outcome.iterations += used;
  return outcome;
}

// Solves over the rows near a centre. False if there is no answer after kMostRounds, or the walk leads to zero, where all rows
// are at their kinks.
bool NearMajoriser::solve_over_near(const double* v, bool next, double* answer, Outcome& outcome) {
  lowest_value_ = value(v, current_);
  std::copy_n(v, lowest_.size(), lowest_.data());
  if (source_ == Source::kAllRows || far_rows_changed_) {
    next = false;
    if (!centre(v)) return false;
  }
  far_rows_changed_ = false;
  return solve_in_rounds(v, next, answer, outcome);
}

// Continues from the answer, which is lowest_, and adds the far rows that have changed sides to the near ones after each round.
bool NearMajoriser::solve_in_rounds(const double* v, bool next, double* answer, Outcome& outcome) {
  std::size_t steps = kFirstSteps;
  for (std::size_t round = 0; round < kMostRounds; ++round, steps *= 2) {
    const Outcome end = near_.solve(tangent_.data(), problem_.curvature, problem_.gamma, limits_.gap,
                                    std::min(steps, limits_.solver_iterations), next, answer);
    outcome = {outcome.iterations + end.iterations, end.converged, end.method};
    const bool can_continue = end.out_of_steps && end.iterations == steps;
    if (!end.converged && !can_continue) return false;
    const std::size_t n_changed = far_.recheck_far(answer);
    far_rows_changed_ = far_rows_changed_ || n_changed > 0;
    if (n_changed == 0 && end.converged) return true;
    next = true;
    if (n_changed > 0 && !add_changed(v, n_changed, next, answer)) return false;
  }
  return false;
}

Outcome NearMajoriser::end_at_zero(double* answer, std::size_t iterations) {
  std::fill_n(answer, tangent_.size(), 0.0);
  trial_source_ = Source::kAllRows;
  changed_ = far_.passes().rows();
  return {iterations, true, Method::kOrigin};
}

// Called where the walk led to zero, or began there. If zero is not the solution, the programme falls from zero to another point,
// from which the walk continues; it cannot lead back.
bool NearMajoriser::solve_at_zero(const double* v, double* answer, Outcome& outcome) {
  const OriginVerdict verdict =
      origin_.examine(tangent_.data(), problem_.curvature, problem_.gamma, answer, outcome.iterations);
  if (verdict == OriginVerdict::kUnknown) return false;
  if (verdict == OriginVerdict::kSolution) {
    outcome = end_at_zero(answer, outcome.iterations);
    return true;
  }
  if (!is_lower(answer, far_.evaluate(answer, false)) || !centre(v)) return false;
  return solve_in_rounds(v, false, answer, outcome);
}

// Makes the lowest point the centre. False if too many rows are near it.
bool NearMajoriser::centre(const double* v) {
  const std::size_t count = far_.centre(lowest_.data());
  if (count > far_.most_near()) {
    trial_source_ = Source::kAllRows;
    return false;
  }
  near_.take(count);
  near_.mark(0, v);
  recentred_ = true;
  return true;
}

// Adds the far rows that have changed sides at the answer to the near ones, or finds a new centre if they are too many. Then
// moves the answer towards lowest_ until the programme is lower than there. That succeeds, because no far row has changed sides
// at lowest_, and none can between both points that has not at the answer.
bool NearMajoriser::add_changed(const double* v, std::size_t n_changed, bool& next, double* answer) {
  if (n_changed > near_.free_places()) {
    next = false;
    return centre_lower(v, answer);
  }
  assert(far_rows_changed_);
  const std::size_t first = near_.design().rows();
  next = near_.add(n_changed);
  near_.mark(first, v);
  for (int halving = 0; halving < kMostHalvings; ++halving) {
    if (is_lower(answer, evaluate_near(answer))) return true;
    next = false;
    halve(answer);
  }
  return false;
}

bool NearMajoriser::centre_lower(const double* v, double* answer) {
  for (int halving = 0; halving < kMostHalvings; ++halving) {
    if (is_lower(answer, far_.evaluate(answer, false))) return centre(v);
    halve(answer);
  }
  return false;
}

void NearMajoriser::halve(double* answer) const {
  for (std::size_t k = 0; k < lowest_.size(); ++k) answer[k] = 0.5 * (answer[k] + lowest_[k]);
}

// Solves over all rows, from the answer, which is v, or zero if the walk led there.
Outcome NearMajoriser::solve_over_all(const double* v, double* answer) {
  const Design& design = far_.passes().design();
  if (!all_) {
    all_ = std::make_unique<SolverOverAll>(design, far_.passes().team());
    all_->watch(watch_);
  }
  all_->forget();
  z_.resize(design.rows());
  z_before_.resize(design.rows());
  design.apply(v, z_before_.data());
  design.apply(answer, z_.data());
  const Programme programme{design, tangent_.data(), far_.passes().beta_g(), problem_.curvature, problem_.gamma};
  const Outcome outcome = all_->solve(programme, limits_, false, answer, z_.data());
  changed_ = 0;
  const bool has_direction = problem_.kinks != nullptr;
  const double before = kink_noise(v, design.columns(), has_direction);
  const double after = kink_noise(answer, design.columns(), has_direction);
  if (has_direction) {
    along_kinks_.resize(design.rows());
    design.apply(problem_.kinks, along_kinks_.data());
  }
  for (std::size_t j = 0; j < design.rows(); ++j) {
    const double norm = has_direction ? std::copysign(all_->norms()[j], along_kinks_[j]) : all_->norms()[j];
    changed_ += (z_before_[j] >= -before * norm) != (z_[j] >= -after * norm);
  }
  return outcome;
}

Evaluation NearMajoriser::evaluate(const double* trial, bool is_answer) {
  if (is_answer && trial_source_ == Source::kNearRows) {
    const NearRows::Values found = evaluate_near(trial);
    // If all z of near rows are noise, those of far rows decide whether the point is zero.
    const double largest =
        is_noise(found.largest, steepest_, problem_) ? far_.evaluate(trial, false).largest : found.largest;
    // After a new centre the changed sides are not all known.
    const std::size_t changed = recentred_ ? std::max<std::size_t>(1, found.changed + far_.crossed()) : found.changed;
    return {found.hinges, found.convex_hinges, largest, changed};
  }
  trial_source_ = Source::kAllRows;
  const FarRows::Totals found = far_.evaluate(trial, true);
  std::copy_n(far_.tangent(), trial_tangent_.size(), trial_tangent_.data());
  const std::size_t changed = is_answer ? changed_ : (current_.largest == 0.0 ? 0 : far_.passes().rows());
  return {found.hinges, found.convex_hinges, found.largest, changed};
}

void NearMajoriser::accept(const Evaluation& found) {
  source_ = trial_source_;
  if (source_ == Source::kNearRows) near_.accept();
  tangent_.swap(trial_tangent_);
  current_ = found;
}

double NearMajoriser::rounding(const double* v) {
  if (source_ == Source::kAllRows) {
    const FarRows::Totals found = far_.evaluate(v, false);
    return kObjectiveRounding * (problem_.size + 2.0 * found.convex_hinges - found.hinges);
  }
  const NearRows::Values found = evaluate_near(v);
  return found.lift + kObjectiveRounding * (problem_.size + found.cancelling);
}

}  // namespace dconnet
