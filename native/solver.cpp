#include "solver.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sample.hpp"

namespace dconnet {

namespace {

// Limits for each method: what has not come to an end by then will not.
constexpr std::size_t kWalkSteps = 60, kWalkStepsPerColumn = 16;
constexpr std::size_t kRoundsAtZero = 40;
constexpr std::size_t kRounds = 12;
constexpr std::size_t kNewtonSteps = 60;
// The last resort, for programmes whose multipliers nearly all sit at their bounds: slow, but it gets there.
constexpr std::size_t kLastNewtonSteps = 2000;
constexpr std::size_t kInteriorIterations = 100;
// Violation of z = Q v, in units of a typical z, from which the active set can take over.
constexpr double kNearly = 1e-4;
// The same in units of order one, at which all is done.
constexpr double kFully = 1e-13;
// The more rows there are for each unknown, the more of them a soft penalty would hold at their kinks, where at a
// solution no more than the unknowns are.
constexpr double kFirstPenaltyPerRow = 20.0;
// After the interior point, which is asked for degenerate programmes only: a soft penalty flips fewer rows.
constexpr double kPolishPenalty = 100.0;
// Violation of the optimality conditions with which an answer still counts as solved, and what is aimed at: a method
// that stops short of that hands over to the next one.
constexpr double kAcceptedKkt = 1e-9;
constexpr double kAimedKkt = 1e-12;
constexpr double kAimedGap = 1e-12;
// Where the interior point hands over to the augmented Lagrangian for the last digits.
constexpr double kInteriorGap = 1e-12;

}  // namespace

Solver::Solver(Design design, bool sampled)
    : design_(std::move(design)),
      room_(design_.rows()),
      scratch_(design_.rows()),
      face_(design_, room_),
      sample_(sampled ? Sample::of(design_) : nullptr),
      active_set_(design_, face_, scratch_),
      face_walk_(design_, face_, scratch_, sample_.get()),
      origin_(design_, room_, scratch_),
      augmented_lagrangian_(design_, room_, scratch_),
      certifier_(design_, scratch_),
      linear_(design_.stride()),
      slope_(design_.rows()),
      v_(design_.stride()),
      kept_v_(design_.stride()),
      kept_multipliers_(design_.rows()) {}

Solver::~Solver() = default;

void Solver::take_rows(const Design& from, const Row* rows, std::size_t count) {
  design_.take_rows(from, rows, count);
  face_walk_.measure_rows();
  walked_ = false;
}

void Solver::forget() {
  walked_ = false;
  if (sample_) sample_->forget();
}

bool Solver::is_exact(const Programme& programme, const double* v, const double* z, const double* multipliers) {
  return certifier_.certify(programme, v, z, multipliers, kAimedGap).meets(kAimedGap, kAimedKkt);
}

Outcome Solver::solve(const Programme& programme, double tolerance, std::size_t max_iterations, bool next, double* v,
                      double* z, double* multipliers, ActiveGram& gram, const Enough& enough) {
  const std::size_t rows = design_.rows(), columns = design_.columns();
  const bool resume = next && walked_;
  walked_ = false;
  if (!std::isfinite(dot(programme.linear, programme.linear, columns))) return {0, false};
  if (max_abs(programme.linear, columns) == 0.0) {  // nothing pulls away from zero
    std::fill(v, v + columns, 0.0);
    std::fill(z, z + rows, 0.0);
    std::fill(multipliers, multipliers + rows, 0.0);
    return {0, true};
  }
  std::size_t used = 0;
  if (walk(programme, max_iterations, resume, v, z, multipliers, gram, used, enough)) return {used, true};
  if (programme.base) return {used, false};
  Outcome outcome = solve_in_units(programme, tolerance, max_iterations - used, v, z, multipliers, gram);
  outcome.iterations += used;
  // An answer no better than zero is zero with some noise.
  if (value(programme, v, z) >= 0.0) {
    const std::size_t rounds = std::min(kRoundsAtZero, max_iterations - outcome.iterations);
    outcome.converged |= settle_at_zero(programme, tolerance, rounds, v, z, multipliers, outcome.iterations);
  }
  return outcome;
}

bool Solver::settle_at_zero(const Programme& programme, double tolerance, std::size_t max_rounds, double* v,
                            double* z, double* multipliers, std::size_t& rounds) {
  std::copy(v, v + design_.columns(), kept_v_.begin());
  std::copy(multipliers, multipliers + design_.rows(), kept_multipliers_.begin());
  if (origin_.examine(programme, max_rounds, v, z, multipliers, rounds) == Origin::Verdict::kSolution &&
      is_exact(programme, v, z, multipliers)) {
    return true;
  }
  std::fill(v, v + design_.columns(), 0.0);
  std::fill(z, z + design_.rows(), 0.0);
  std::copy(kept_multipliers_.begin(), kept_multipliers_.end(), multipliers);
  if (certifier_.certify(programme, v, z, multipliers, tolerance).meets(tolerance, kAcceptedKkt)) return true;
  std::copy(kept_v_.begin(), kept_v_.end(), v);
  design_.apply(v, z);
  return false;
}

// Moves the start along its ray to where the programme is least there, which may be zero. All rows keep their sides.
void Solver::shorten(const Programme& programme, double* v, double* z) const {
  const std::size_t rows = design_.rows(), columns = design_.columns();
  double slope = -dot(programme.linear, v, columns), bend = programme.gamma * dot(v, v, columns);
  if (programme.base) bend += programme.curvature * symmetric_form(programme.base, design_.stride(), v);
  for (std::size_t j = 0; j < rows; ++j) {
    const double active = std::max(z[j], 0.0);
    slope += programme.slope[j] * active;
    bend += programme.curvature * active * active;
  }
  const double factor = slope < 0.0 && bend > 0.0 ? -slope / (2.0 * bend) : 0.0;
  for (std::size_t k = 0; k < columns; ++k) v[k] *= factor;
  for (std::size_t j = 0; j < rows; ++j) z[j] *= factor;
}

// Walks from the start, or from zero if that is better or the walk leads there, and it is not the solution.
bool Solver::walk(const Programme& programme, std::size_t max_iterations, bool resume, double* v, double* z,
                  double* multipliers, ActiveGram& gram, std::size_t& used, const Enough& enough) {
  const std::size_t columns = design_.columns();
  const std::size_t most = kWalkSteps + kWalkStepsPerColumn * columns;
  const auto left = [&] { return std::min(most, max_iterations - used); };
  if (!resume) shorten(programme, v, z);
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (max_abs(v, columns) > 0.0) {
      walked_ = face_walk_.solve(programme, left(), resume && attempt == 0, v, z, multipliers, gram, used, enough) &&
                (face_walk_.ended_early() || is_exact(programme, v, z, multipliers));
      if (walked_) return true;
    }
    if (max_abs(v, columns) > 0.0 || left() == 0) return false;
    if (programme.base) return false;  // at zero all rows meet, those that are left out, too
    const std::size_t rounds = std::min(kRoundsAtZero, left());
    const Origin::Verdict verdict = origin_.examine(programme, rounds, v, z, multipliers, used);
    if (verdict == Origin::Verdict::kSolution) return is_exact(programme, v, z, multipliers);
    if (verdict == Origin::Verdict::kUnknown) return false;
  }
  return false;
}

// Solves the programme in units in which the largest entry of t and the largest possible curvature are one.
Outcome Solver::solve_in_units(const Programme& programme, double tolerance, std::size_t max_iterations, double* v,
                               double* z, double* multipliers, ActiveGram& gram) {
  const std::size_t rows = design_.rows(), columns = design_.columns();
  const double gradient_unit = max_abs(programme.linear, columns);
  const double hessian = programme.gamma + programme.curvature;
  const double length_unit = gradient_unit / hessian;
  for (std::size_t k = 0; k < columns; ++k) {
    linear_[k] = programme.linear[k] / gradient_unit;
    v_[k] = v[k] / length_unit;
  }
  for (std::size_t j = 0; j < rows; ++j) {
    z[j] /= length_unit;
    slope_[j] = programme.slope[j] / gradient_unit;
    multipliers[j] = std::max(multipliers[j] / gradient_unit, 0.0);
  }
  const Programme scaled{design_, linear_.data(), slope_.data(), programme.curvature / hessian,
                         programme.gamma / hessian};
  const Outcome outcome = escalate(scaled, tolerance, max_iterations, z, multipliers, gram);
  for (std::size_t k = 0; k < columns; ++k) v[k] = v_[k] * length_unit;
  for (std::size_t j = 0; j < rows; ++j) {
    z[j] *= length_unit;
    multipliers[j] *= gradient_unit;
  }
  return outcome;
}

// One method after the other, each from where the last one ended, until the answer in v_ and the multipliers is exact, or
// the best of them.
Outcome Solver::escalate(const Programme& programme, double tolerance, std::size_t max_iterations, double* z,
                         double* multipliers, ActiveGram& gram) {
  std::size_t used = 0;
  const auto left = [&](std::size_t limit) { return std::min(limit, max_iterations - used); };
  const auto exact = [&] { return is_exact(programme, v_.data(), z, multipliers); };
  const auto smooth = [&](double violation, double penalty, std::size_t steps) {
    used += augmented_lagrangian_.solve(programme, violation, left(steps), penalty, v_.data(), multipliers,
                                        gram);
    design_.apply(v_.data(), z);
  };
  if (!(value(programme, v_.data(), z) <= 0.0)) {  // worse than zero, where P is zero: a start that only misleads
    std::fill(v_.begin(), v_.end(), 0.0);
    std::fill(multipliers, multipliers + design_.rows(), 0.0);
  }
  const double rows_per_unknown = static_cast<double>(design_.rows()) / static_cast<double>(design_.columns());
  const double first_penalty = std::clamp(kFirstPenaltyPerRow * rows_per_unknown, 1e3, 1e6);
  smooth(kNearly / std::sqrt(rows_per_unknown), first_penalty, kNewtonSteps);
  if (active_set_.solve(programme, left(kRounds), v_.data(), z, multipliers, gram, used) && exact()) {
    return {used, true};
  }
  smooth(kFully, first_penalty, kNewtonSteps);
  if (exact()) return {used, true};

  const auto judge = [&] { return certifier_.certify(programme, v_.data(), z, multipliers, kAimedGap); };
  const Certificate before = judge();
  std::copy(v_.begin(), v_.end(), kept_v_.begin());
  std::copy(multipliers, multipliers + design_.rows(), kept_multipliers_.begin());
  if (!interior_point_) interior_point_ = std::make_unique<InteriorPoint>(design_);
  used += interior_point_->solve(programme, kInteriorGap, left(kInteriorIterations), v_.data(), multipliers,
                                 certifier_);
  smooth(kFully, kPolishPenalty, kLastNewtonSteps);
  Certificate best = judge();
  if (before.kkt < best.kkt) {
    best = before;
    std::copy(kept_v_.begin(), kept_v_.end(), v_.begin());
    std::copy(kept_multipliers_.begin(), kept_multipliers_.end(), multipliers);
    design_.apply(v_.data(), z);
  }
  return {used, best.meets(tolerance, kAcceptedKkt)};
}

}  // namespace dconnet
