// The convex majorisers of one neuron's problem, as its DCA asks for them: one programme after the other, and what is found
// where they lead.
//
// `AllRows` solves them over all rows, `NearMajoriser` over those near their kinks.
#pragma once

#include <cstddef>

#include "leaf_passes.hpp"
#include "solver.hpp"

namespace dconnet {

struct NeuronProblem {
  const double* alpha;  // the weights of its outputs
  Split split;
  double curvature;  // a
  double gamma;
  double size;  // of the objective that O is a part of, and is rounded with
  const double* kinks = nullptr;  // the kink direction (see leaf_passes.hpp), padded; null if rows at their kinks are active
};

struct Limits {
  std::size_t dca_iterations;
  std::size_t solver_iterations;
  double gap;
};

// What is found at a point.
struct Evaluation {
  double hinges;         // O without its penalty
  double convex_hinges;  // the same without beta_h
  double largest;        // |z_j|
  std::size_t changed;   // rows that the tangent at hand has on the other side
};

// A rise of the objective by less than this fraction of its terms is rounding.
inline constexpr double kObjectiveRounding = 1e-13;

// An answer whose preactivations are nothing next to what the slopes call for is zero.
inline bool is_noise(double largest, double steepest, const NeuronProblem& problem) {
  return largest <= kNeuronKinkTolerance * steepest / (2.0 * (problem.gamma + problem.curvature));
}

class Majoriser {
 public:
  virtual ~Majoriser() = default;

  // Is asked now and then whether to go on; null is always.
  virtual void watch(const Proceed* proceed) = 0;

  // Opens the problem at v, a padded vector, which is at hand from then on.
  virtual Evaluation open(const NeuronProblem& problem, const Limits& limits, const double* v) = 0;
  // The largest slope.
  virtual double steepest() const = 0;
  // Solves the programme with the tangent at the point at hand, from there, and writes the answer. With `next`, the point
  // at hand is the last answer.
  virtual Outcome solve(const double* v, bool next, double* answer) = 0;
  // Looks at a trial: the last answer, or another point.
  virtual Evaluation evaluate(const double* trial, bool is_answer) = 0;
  // The point that was looked at last is at hand from now on.
  virtual void accept(const Evaluation& found) = 0;
  // By how much O at an answer may be above that at v, the point at hand: rounding, for which slopes that cancel in O count,
  // and what rows lift the majoriser off O that are negative by noise, but count as active.
  virtual double rounding(const double* v) = 0;
  // Looks at all rows at v, the point at hand or zero, and returns O there without its penalty.
  virtual double certify(const double* v) = 0;
  // Gives the network the neuron as it was certified.
  virtual void close() = 0;
};

}  // namespace dconnet
