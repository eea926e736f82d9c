#include "solver.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace dconnet {

namespace {

// Limits for each method: what has not come to an end by then will not. Of the programmes of MNIST (101 columns), the longest
// walk that came to an end took seven steps a column. Of those of the kernel's tests and of sweeps over five designs, no
// more than 18 rounds at zero settled any that 400 did.
constexpr std::size_t kWalkSteps = 60, kWalkStepsPerColumn = 16;
constexpr std::size_t kRoundsAtZero = 40;
// Those that the augmented Lagrangian method solves take at most 117 steps; others take thousands and stay unsolved.
constexpr std::size_t kLagrangianSteps = 250;
// Violation of the optimality conditions with which an answer still counts as solved, and what is aimed at: a method
// that does not reach it is followed by the next one.
constexpr double kAcceptedKkt = 1e-9;
constexpr double kAimedKkt = 1e-12;
constexpr double kAimedGap = 1e-12;

}  // namespace

Solver::Solver(Design design, Team* team)
    : design_(std::move(design)),
      changes_(design_.rows()),
      scratch_(design_.rows()),
      face_(design_, changes_),
      face_walk_(design_, face_, scratch_, team),
      origin_(design_, changes_, scratch_),
      augmented_lagrangian_(design_, changes_, scratch_),
      certifier_(design_, scratch_),
      kept_{{}, Method::kNone, std::vector<double>(design_.stride()), std::vector<double>(design_.rows())} {}

bool Solver::took_rows(std::size_t first) {
  face_walk_.measure_rows(first);
  walked_ = walked_ && first > 0;
  return walked_;
}

void Solver::admit(const Programme& programme, std::size_t first, const double* z) {
  face_.resume(programme);
  for (std::size_t j = first; j < design_.rows(); ++j) face_.admit(j, z[j] > 0.0);
}

void Solver::watch(const Proceed* proceed) {
  face_walk_.watch(proceed);
  augmented_lagrangian_.watch(proceed);
}

const char* name_of(Method method) {
  constexpr const char* names[] = {"none", "start", "origin", "walk", "augmented Lagrangian"};
  return names[static_cast<std::size_t>(method)];
}

bool Solver::is_exact(const Programme& programme, const Iterate& at) {
  return certifier_.certify(programme, at, kAimedGap).meets(kAimedGap, kAimedKkt);
}

Outcome Solver::solve(const Programme& programme, double tolerance, std::size_t max_iterations, bool next,
                      const Iterate& at, ActiveGram& gram, const Enough& enough) {
  const std::size_t rows = design_.rows(), columns = design_.columns();
  const bool resume = next && walked_;
  walked_ = false;
  if (!std::isfinite(dot(programme.linear, programme.linear, columns))) return {0, false};
  if (max_abs(programme.linear, columns) == 0.0) {  // nothing pulls away from zero
    std::fill(at.v, at.v + columns, 0.0);
    std::fill(at.z, at.z + rows, 0.0);
    std::fill(at.multipliers, at.multipliers + rows, 0.0);
    return {0, true, Method::kOrigin};
  }
  std::size_t used = 0;
  const Method method = walk(programme, max_iterations, resume, at, gram, used, enough);
  if (method != Method::kNone) return {used, true, method};
  if (programme.base) {  // what else there is, is for all rows, those that are left out included
    walked_ = max_abs(at.v, columns) > 0.0 && face_walk_.is_out_of_steps();
    return {used, false, Method::kNone, walked_};
  }
  Outcome outcome = escalate(programme, tolerance, max_iterations - used, at, gram);
  outcome.iterations += used;
  return outcome;
}

Outcome Solver::descend(const Programme& programme, std::size_t max_steps, bool next, const Iterate& at,
                        ActiveGram& gram) {
  const bool resume = next && walked_;
  walked_ = false;
  if (!std::isfinite(dot(programme.linear, programme.linear, design_.columns()))) return {0, false};
  std::size_t used = 0;
  const bool ended = face_walk_.solve(programme, max_steps, resume, at, gram, used);
  walked_ = ended || face_walk_.is_out_of_steps();
  return {used, ended, ended ? Method::kWalk : Method::kNone, !ended && walked_};
}

// Moves the start along its ray to where the programme is least there, which may be zero. All rows keep their sides.
void Solver::shorten(const Programme& programme, const Iterate& at) const {
  const std::size_t rows = design_.rows(), columns = design_.columns();
  double slope = -dot(programme.linear, at.v, columns), bend = programme.gamma * dot(at.v, at.v, columns);
  if (programme.base) bend += programme.curvature * symmetric_form(programme.base, design_.stride(), at.v);
  for (std::size_t j = 0; j < rows; ++j) {
    const double active = std::max(at.z[j], 0.0);
    slope += programme.slope[j] * active;
    bend += programme.curvature * active * active;
  }
  const double factor = slope < 0.0 && bend > 0.0 ? -slope / (2.0 * bend) : 0.0;
  for (std::size_t k = 0; k < columns; ++k) at.v[k] *= factor;
  for (std::size_t j = 0; j < rows; ++j) at.z[j] *= factor;
}

// Walks from the start, or from zero if that is better or the walk leads there, and it is not the solution. Which of both
// was it that settled the programme, if any?
Method Solver::walk(const Programme& programme, std::size_t max_iterations, bool resume, const Iterate& at,
                    ActiveGram& gram, std::size_t& used, const Enough& enough) {
  const std::size_t columns = design_.columns();
  const std::size_t most = used + kWalkSteps + kWalkStepsPerColumn * columns;
  const auto left = [&] { return std::min(most, max_iterations) - used; };
  uncertified_ = false;
  if (!resume) shorten(programme, at);
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (max_abs(at.v, columns) > 0.0) {
      const bool ended =
          face_walk_.solve(programme, left(), resume && attempt == 0, at, gram, used, enough);
      walked_ = ended && (face_walk_.ended_early() || is_exact(programme, at));
      if (walked_) return Method::kWalk;
      uncertified_ = ended;
    }
    if (max_abs(at.v, columns) > 0.0 || left() == 0) return Method::kNone;
    if (programme.base) return Method::kNone;  // at zero all rows meet, those that are left out, too
    const std::size_t rounds = std::min(kRoundsAtZero, left());
    const OriginVerdict verdict = origin_.examine(programme, rounds, at, used);
    if (verdict == OriginVerdict::kUnknown) return Method::kNone;
    if (verdict == OriginVerdict::kSolution) {
      return is_exact(programme, at) ? Method::kOrigin : Method::kNone;
    }
  }
  return Method::kNone;
}

void Solver::keep(const Certificate& certificate, Method method, const Iterate& at) {
  kept_.certificate = certificate;
  kept_.method = method;
  std::copy(at.v, at.v + design_.columns(), kept_.v.begin());
  std::copy(at.multipliers, at.multipliers + design_.rows(), kept_.multipliers.begin());
}

void Solver::keep_if_better(const Programme& programme, Method method, const Iterate& at) {
  const Certificate certificate = certifier_.certify(programme, at, kAimedGap);
  if (certificate.kkt < kept_.certificate.kkt) keep(certificate, method, at);
}

// What to do where the walk did not settle a programme; the best answer of all counts.
Outcome Solver::escalate(const Programme& programme, double tolerance, std::size_t max_iterations, const Iterate& at,
                         ActiveGram& gram) {
  keep(certifier_.certify(programme, at, kAimedGap), uncertified_ ? Method::kWalk : Method::kStart, at);
  if (kept_.certificate.meets(kAimedGap, kAimedKkt)) return {0, true, kept_.method};
  std::size_t used = 0;
  const auto attempt = [&] {
    used += augmented_lagrangian_.solve(programme, std::min(kLagrangianSteps, max_iterations - used), at.v, at.multipliers, gram);
    design_.apply(at.v, at.z);
    keep_if_better(programme, Method::kAugmentedLagrangian, at);
  };
  attempt();
  if (!kept_.certificate.meets(tolerance, kAcceptedKkt)) {  // the end of the walk can be a bad start: begin at zero
    std::fill(at.v, at.v + design_.columns(), 0.0);
    std::fill(at.multipliers, at.multipliers + design_.rows(), 0.0);
    attempt();
  }
  if (value(programme, at) >= 0.0) keep_zero(programme, tolerance, at);
  std::copy(kept_.v.begin(), kept_.v.end(), at.v);
  std::copy(kept_.multipliers.begin(), kept_.multipliers.end(), at.multipliers);
  design_.apply(at.v, at.z);
  const bool converged = kept_.certificate.meets(tolerance, kAcceptedKkt);
  return {used, converged, converged ? kept_.method : Method::kNone};
}

// An answer no better than zero is zero with some noise, if the certificate allows.
void Solver::keep_zero(const Programme& programme, double tolerance, const Iterate& at) {
  std::fill(at.v, at.v + design_.columns(), 0.0);
  std::fill(at.z, at.z + design_.rows(), 0.0);
  const Certificate certificate = certifier_.certify(programme, at, tolerance);
  if (certificate.meets(tolerance, kAcceptedKkt)) keep(certificate, Method::kAugmentedLagrangian, at);
}

}  // namespace dconnet
