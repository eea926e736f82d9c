#include "neuron.hpp"

#include <algorithm>
#include <cmath>

namespace dconnet {

namespace {

// Where answers over the near rows make others stray so often, all rows are looked at.
constexpr std::size_t kMostRounds = 20;
constexpr int kMostHalvings = 20;
// Share of the rows that change sides in a step from which on the next solution is far away, too.
constexpr double kMany = 0.02;

}  // namespace

Neuron::Neuron(NeuronRows& rows)
    : rows_(rows),
      near_(NearRows::pays_for(rows.design()) ? std::make_unique<NearRows>(rows) : nullptr),
      sample_(near_ ? Sample::of(rows.design()) : nullptr),
      candidate_(rows.design().stride()),
      lowest_(rows.design().stride()),
      pull_(rows.design().stride()) {
  if (!near_) prepare_for_all();
}

void Neuron::watch(const Proceed* proceed) {
  watch_ = proceed;
  if (near_) near_->watch(proceed);
  if (sample_) sample_->watch(proceed);
  if (solver_) solver_->watch(proceed);
}

void Neuron::prepare_for_all() {
  const Design& design = rows_.design();
  solver_ = std::make_unique<Solver>(Design::view(design.row(0), design.rows(), design.columns()));
  gram_ = std::make_unique<ActiveGram>(solver_->design());
  multipliers_.resize(design.rows());
  solver_->watch(watch_);
}

bool Neuron::improve(const NeuronProblem& problem, const Limits& limits, const Proceed& proceed, double* v,
                     Tally& tally) {
  const std::size_t columns = rows_.design().columns();
  if (problem.curvature == 0.0) {  // only the penalty is left: its minimiser is zero
    std::fill(v, v + columns, 0.0);
    rows_.set_zero();
    return true;
  }
  const bool inexact = limits.share > 0.0;
  is_far_ = true;
  watch(&proceed);
  if (near_) near_->forget();
  if (sample_) sample_->forget();
  if (solver_) {
    solver_->forget();
    gram_->clear();
  }
  std::copy(v, v + columns, candidate_.begin());
  NeuronRows::Look look = rows_.look(candidate_.data(), problem.curvature, inexact, true);
  rows_.accept();
  const auto value_of = [&](const NeuronRows::Look& look) {
    return look.hinges + problem.gamma * dot(candidate_.data(), candidate_.data(), columns);
  };
  double objective = value_of(look);
  bool next = false;  // whether the programme continues from the answer to the last one
  for (std::size_t iteration = 0; iteration < limits.dca_iterations; ++iteration) {
    if (look.changed == 0) return true;  // the next programme would be the last one again
    if (!proceed()) return false;
    const Answer answer = solve(problem, limits, v, look.convex_hinges, next);
    if (!answer.outcome.converged && !proceed()) return false;
    ++tally.programmes;
    tally.iterations += answer.outcome.iterations;
    tally.unsolved += !answer.outcome.converged;
    NeuronRows::Look reached = answer.seen ? answer.look
                                           : rows_.look(candidate_.data(), problem.curvature, inexact, true);
    next = !is_noise(problem, reached);
    if (!next) {
      std::fill(candidate_.begin(), candidate_.end(), 0.0);
      reached = rows_.look(candidate_.data(), problem.curvature, inexact, false);
    }
    const double value = value_of(reached);
    if (!(value <= objective)) {  // also refuses NaN
      const double rounding = kObjectiveRounding * (problem.size + rows_.cancelling());
      tally.refused += !(value <= objective + rows_.lift() + rounding);
      return true;
    }
    double moved = 0.0;
    for (std::size_t k = 0; k < columns; ++k) moved += (candidate_[k] - v[k]) * (candidate_[k] - v[k]);
    std::copy_n(candidate_.data(), columns, v);
    rows_.accept();
    look = reached;
    is_far_ = static_cast<double>(look.changed) > kMany * static_cast<double>(rows_.design().rows());
    objective = value;
    if (std::sqrt(moved) < kDcaTolerance) return true;
  }
  return true;
}

// An answer whose preactivations are nothing next to what the slopes call for is zero.
bool Neuron::is_noise(const NeuronProblem& problem, const NeuronRows::Look& look) const {
  const double called_for = rows_.steepest() / (2.0 * (problem.gamma + problem.curvature));
  return look.largest <= kNeuronKinkTolerance * called_for;
}

Programme Neuron::programme(const NeuronProblem& problem) const {
  return {rows_.design(), rows_.tangent(), rows_.beta_g(), problem.curvature, problem.gamma};
}

// The convex programme with the tangent at hand, from v, which is at hand with these convex hinges.
Neuron::Answer Neuron::solve(const NeuronProblem& problem, const Limits& limits, const double* v, double convex,
                             bool next) {
  Answer answer{};
  const bool is_exact = limits.share == 0.0;
  if (near_ && is_exact && solve_over_near(problem, limits, v, convex, next, answer)) return answer;
  const std::size_t used = answer.outcome.iterations;
  const bool came_to_zero = near_ && is_exact && max_abs(candidate_.data(), candidate_.size()) == 0.0;
  answer = solve_over_all(problem, limits, v, came_to_zero, next && !near_);
  answer.outcome.iterations += used;
  return answer;
}

Neuron::Answer Neuron::solve_over_all(const NeuronProblem& problem, const Limits& limits, const double* v,
                                      bool from_zero, bool next) {
  const std::size_t rows = rows_.design().rows(), columns = rows_.design().columns();
  if (!solver_) prepare_for_all();
  const Programme programme = this->programme(problem);
  const Enough enough{limits.share > 0.0 ? value(programme, v, rows_.z()) : 0.0, limits.share};
  if (!next) guess_multipliers(problem);
  if (from_zero) {
    std::fill(candidate_.begin(), candidate_.end(), 0.0);
    std::fill_n(rows_.trial_z(), rows, 0.0);
  } else {
    std::copy_n(v, columns, candidate_.data());
    std::copy_n(rows_.z(), rows, rows_.trial_z());
  }
  Answer answer{};
  answer.outcome = solver_->solve(programme, limits.gap, limits.solver_iterations, next, candidate_.data(),
                                  rows_.trial_z(), multipliers_.data(), *gram_, enough);
  return answer;
}

// What z dictates for the multipliers, and the middle of their interval for the rows at the kink.
void Neuron::guess_multipliers(const NeuronProblem& problem) {
  const double* z = rows_.z();
  const double noise = kNeuronKinkTolerance * max_abs(z, rows_.design().rows());
  for (std::size_t j = 0; j < multipliers_.size(); ++j) {
    const double beta = rows_.beta_g()[j];
    multipliers_[j] = z[j] > noise ? beta + 2.0 * problem.curvature * z[j] : (z[j] >= -noise ? 0.5 * beta : 0.0);
  }
}

double Neuron::convex_value(const NeuronProblem& problem, const double* v, double convex_hinges) const {
  const std::size_t columns = rows_.design().columns();
  return problem.gamma * dot(v, v, columns) - dot(rows_.tangent(), v, columns) + convex_hinges;
}

// Over the rows near a centre, to which those are added that have strayed at an answer: always downhill. False if that
// comes to no end, or to zero, where all rows meet.
bool Neuron::solve_over_near(const NeuronProblem& problem, const Limits& limits, const double* v, double convex,
                             bool next, Answer& answer) {
  const std::size_t columns = rows_.design().columns();
  double lowest = convex_value(problem, v, convex);
  std::copy_n(v, columns, lowest_.data());
  std::copy_n(v, columns, candidate_.data());
  if (is_far_ && start_from_sample(problem, v, lowest)) {
    next = false;
    if (!near_->centre(rows_.trial_z())) return false;
  } else if (!near_->centred()) {
    next = false;
    if (!near_->centre(rows_.z())) return false;
  }
  for (std::size_t round = 0; round < kMostRounds; ++round) {
    const Outcome outcome = near_->solve(rows_.tangent(), problem.curvature, problem.gamma, limits.gap,
                                         limits.solver_iterations, next, candidate_.data());
    answer.outcome.iterations += outcome.iterations;
    answer.outcome.converged = outcome.converged;
    if (!outcome.converged) break;
    answer.look = rows_.look(candidate_.data(), problem.curvature, false, false);
    answer.seen = true;
    std::size_t strayed = near_->strayed(rows_.trial_z());
    if (strayed == 0) return true;
    const double value = convex_value(problem, candidate_.data(), answer.look.convex_hinges);
    const bool is_lower = value < lowest;
    if (is_lower) {
      lowest = value;
    } else {
      if (!return_halfway(problem, lowest)) break;
      strayed = near_->strayed(rows_.trial_z());
    }
    std::copy_n(candidate_.data(), columns, lowest_.data());
    if (!near_->follow(rows_.trial_z(), strayed, is_lower, next)) break;
  }
  near_->forget();
  return false;
}

// The solution for a sample of the rows, if it is lower: a better centre for programmes whose solution is far away.
bool Neuron::start_from_sample(const NeuronProblem& problem, const double* v, double& lowest) {
  if (!sample_) return false;
  const std::size_t columns = rows_.design().columns();
  rows_.convex_pull(problem.curvature, pull_.data());
  if (!sample_->solve(programme(problem), pull_.data(), v, rows_.z())) return false;
  const NeuronRows::Look look = rows_.look(sample_->v(), problem.curvature, false, false);
  const double value = convex_value(problem, sample_->v(), look.convex_hinges);
  if (!(value < lowest)) return false;
  lowest = value;
  std::copy_n(sample_->v(), columns, lowest_.data());
  std::copy_n(sample_->v(), columns, candidate_.data());
  return true;
}

// Goes back from the candidate towards the lowest point until the programme is lower than there. The way leads downhill at
// first, because at the lowest point no row has strayed.
bool Neuron::return_halfway(const NeuronProblem& problem, double& lowest) {
  for (int halving = 0; halving < kMostHalvings; ++halving) {
    for (std::size_t k = 0; k < candidate_.size(); ++k) candidate_[k] = 0.5 * (candidate_[k] + lowest_[k]);
    const NeuronRows::Look look = rows_.look(candidate_.data(), problem.curvature, false, false);
    const double value = convex_value(problem, candidate_.data(), look.convex_hinges);
    if (!(value < lowest)) continue;
    lowest = value;
    return true;
  }
  return false;
}

}  // namespace dconnet
