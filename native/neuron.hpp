// The DC subproblem of one neuron and the DCA that solves it.
//
//   O(v) = sum_j (beta_g - beta_h)_j max(z_j, 0) + a sum_j max(z_j, 0)² + gamma |v|²,   z = Q v
//
// Each step replaces the concave part by its tangent and minimises the convex majoriser that is left.
#pragma once

#include <cstddef>
#include <vector>

#include "solver.hpp"

namespace dconnet {

// Norm of the difference of two iterates at which the paper ends the DCA.
inline constexpr double kDcaTolerance = 1e-12;
// Rows that sit at their kink come back from a solver as tiny numbers of either sign. They count as zero, where the
// Heaviside function of the paper is one; otherwise the DCA would flip subgradients for ever at a converged point.
inline constexpr double kNeuronKinkTolerance = 1e-9;
// A rise of the objective by less than this fraction of its terms is rounding.
inline constexpr double kObjectiveRounding = 1e-13;

struct NeuronProblem {
  const double* beta_g;  // rows
  const double* beta_h;  // rows
  double curvature;      // a
  double gamma;
  double size;  // of the objective that O is a part of, and is rounded with
};

struct Limits {
  std::size_t dca_iterations;
  std::size_t solver_iterations;
  double gap;
  double share = 0.0;  // of the decrease, at which a duality gap will do; zero solves exactly
};

struct Tally {
  std::size_t programmes = 0;
  std::size_t iterations = 0;  // of the solver: Newton steps, nearly always
  std::size_t refused = 0;   // steps that would have raised the objective by more than rounding
  std::size_t unsolved = 0;  // programmes that reached the iteration limit
};

class Neuron {
 public:
  explicit Neuron(Solver& solver);

  // Runs the DCA from v with its preactivations z and replaces both by where it ends. `gram` belongs to the neuron.
  void improve(const NeuronProblem& problem, const Limits& limits, double* v, double* z, ActiveGram& gram,
               Tally& tally);

 private:
  double value(const NeuronProblem& problem, const double* v, const double* z) const;
  // Rows where the Heaviside function is one, up to the noise of a solver. False if they are those of last time.
  bool tangent_rows(const double* z);
  // The same of those rows alone that have a part in the tangent; after an inexact answer others may be on any side.
  bool tangent_rows_with_slope(const NeuronProblem& problem, const double* z);
  void tangent(const NeuronProblem& problem);
  void guess_multipliers(const NeuronProblem& problem, const double* z);
  // True if the answer was nothing but noise, next to the size that is called for.
  bool remove_noise(double called_for);
  double lift(const NeuronProblem& problem, const double* z) const;
  double rounding(const NeuronProblem& problem, const double* z) const;

  Solver& solver_;
  const Design& design_;
  std::vector<double> candidate_v_, candidate_z_, multipliers_, linear_;
  std::vector<double>& pull_;  // rows
  std::vector<unsigned char> active_;
};

}  // namespace dconnet
