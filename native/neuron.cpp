#include "neuron.hpp"

#include <algorithm>
#include <cmath>

namespace dconnet {

bool Neuron::improve(const NeuronProblem& problem, const Limits& limits, const Proceed& proceed, double* v,
                     Tally& tally) {
  majoriser_->watch(&proceed);
  std::copy_n(v, start_.size(), start_.data());
  if (!run(problem, limits, proceed, v, tally)) return false;
  certify(problem, v, tally);
  majoriser_->close();
  return true;
}

bool Neuron::run(const NeuronProblem& problem, const Limits& limits, const Proceed& proceed, double* v, Tally& tally) {
  const std::size_t stride = candidate_.size();
  Evaluation found = majoriser_->open(problem, limits, v);
  double objective = opened_ = found.hinges + problem.gamma * dot(v, v, stride);
  if (problem.curvature == 0.0) {  // only the penalty is left: its minimiser is zero
    std::fill_n(v, stride, 0.0);
    return true;
  }
  bool next = false;  // whether the programme continues from the answer to the last one
  for (std::size_t iteration = 0; iteration < limits.dca_iterations; ++iteration) {
    if (found.changed == 0) return true;  // the next programme would be the last one again
    if (!proceed()) return false;
    if (problem.split == Split::kNet && max_abs(v, stride) > 0.0) {
      if (!descend(problem, v, objective, tally) && !proceed()) return false;
      next = false;
    }
    const Outcome outcome = majoriser_->solve(v, next, candidate_.data());
    if (!outcome.converged && !proceed()) return false;
    ++tally.programmes;
    tally.iterations += outcome.iterations;
    tally.unsolved += !outcome.converged;
    Evaluation reached = majoriser_->evaluate(candidate_.data(), true);
    next = !is_noise(reached.largest, majoriser_->steepest(), problem);
    if (!next) {
      std::fill(candidate_.begin(), candidate_.end(), 0.0);
      reached = majoriser_->evaluate(candidate_.data(), false);
    }
    const double value = reached.hinges + problem.gamma * dot(candidate_.data(), candidate_.data(), stride);
    if (!(value <= objective)) {  // also refuses NaN
      tally.refused += !(value <= objective + majoriser_->rounding(v));
      return true;
    }
    const double moved = distance(candidate_.data(), v, stride);
    std::copy_n(candidate_.data(), stride, v);
    majoriser_->accept(reached);
    found = reached;
    objective = value;
    if (moved < kDcaTolerance) return true;
  }
  return true;
}

// Walks downhill on O from v, and replaces v by the end if O has fallen enough for the distance. False if the walk did not come to
// an end.
bool Neuron::descend(const NeuronProblem& problem, double* v, double& objective, Tally& tally) {
  const std::size_t stride = candidate_.size();
  const Outcome outcome = majoriser_->descend(v, candidate_.data());
  tally.iterations += outcome.iterations;
  const Evaluation reached = majoriser_->evaluate(candidate_.data(), true);
  const double value = reached.hinges + problem.gamma * dot(candidate_.data(), candidate_.data(), stride);
  const double moved = distance(candidate_.data(), v, stride);
  if (!(moved > 0.0 && value <= objective - kWalkDecrease * problem.gamma * moved * moved)) return outcome.converged;
  std::copy_n(candidate_.data(), stride, v);
  majoriser_->accept(reached);
  objective = value;
  return outcome.converged;
}

// The end has the last word on all rows: what is above the start by more than rounding is refused.
void Neuron::certify(const NeuronProblem& problem, double* v, Tally& tally) {
  const std::size_t stride = candidate_.size();
  const double value = majoriser_->certify(v) + problem.gamma * dot(v, v, stride);
  if (value <= opened_ + kObjectiveRounding * problem.size) return;
  ++tally.refused;
  std::copy_n(start_.data(), stride, v);
  majoriser_->certify(v);
}

}  // namespace dconnet
