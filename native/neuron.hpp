// The DC subproblem O of one neuron and the DCA that solves it.
//
// Each step of the DCA replaces the concave part of O by its tangent and minimises the convex majoriser that is left. With the
// net split, a walk downhill on O itself comes before each step: nearly always it ends in a local minimum, and the step only
// confirms that. Where rows are many, walks and programmes are solved over those that are near their kinks.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "majoriser.hpp"

namespace dconnet {

// Norm of the difference of two iterates at which the paper ends the DCA.
inline constexpr double kDcaTolerance = 1e-12;

// A walk counts if O falls by at least this share of gamma |Δv|²: the sufficient decrease of the convergence proof. A step of the
// DCA lowers O by gamma |Δv|² or more.
inline constexpr double kWalkDecrease = 0.1;

struct Tally {
  std::size_t programmes = 0;
  std::size_t iterations = 0;  // of the solver: steps of the walk, nearly always
  std::size_t refused = 0;     // steps that would have raised the objective by more than rounding
  std::size_t unsolved = 0;    // programmes that were not solved to tolerance
};

class Neuron {
 public:
  explicit Neuron(std::unique_ptr<Majoriser> majoriser, std::size_t stride)
      : majoriser_(std::move(majoriser)), start_(stride), candidate_(stride) {}

  // Runs the DCA from v, which is padded, and replaces v by its end, in the network as well. False if `proceed` returned false:
  // v is then where the last whole step ended, and the rows have lost the neuron.
  bool improve(const NeuronProblem& problem, const Limits& limits, const Proceed& proceed, double* v, Tally& tally);

 private:
  bool run(const NeuronProblem& problem, const Limits& limits, const Proceed& proceed, double* v, Tally& tally);
  bool descend(const NeuronProblem& problem, double* v, double& objective, Tally& tally);
  void certify(const NeuronProblem& problem, double* v, Tally& tally);

  std::unique_ptr<Majoriser> majoriser_;
  double opened_ = 0.0;                           // O at the start
  std::vector<double> start_, candidate_;         // columns
};

}  // namespace dconnet
