// Walks on one neuron's problem O, its convex majorisers, whose programmes the DCA solves one after the other, and O at their ends.
//
// `AllRows` solves the programmes over all rows, `NearMajoriser` over those near their kinks. The *current point* is where the
// tangent is taken: that of `open`, and then the point of the last `evaluate` before an `accept`.
#pragma once

#include <cstddef>

#include "neuron_rows.hpp"
#include "solver.hpp"

namespace dconnet {

struct NeuronProblem {
  const double* alpha;  // the weights of its outputs
  Split split;
  double curvature;  // a
  double gamma;
  double size;  // of the objective that O is a part of, and is rounded with
  const double* kinks = nullptr;  // the kink direction (see neuron_rows.hpp), padded; null if rows at their kinks are active
};

struct Limits {
  std::size_t dca_iterations;
  std::size_t solver_iterations;
  double gap;
};

// O and its rows at a point.
struct Evaluation {
  double hinges;         // O without its penalty
  double convex_hinges;  // the same without beta_h
  double largest;        // |z_j|
  std::size_t changed;   // rows that are not on the side that the current tangent has them on
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

  // Sets the function that is asked now and then whether to proceed; null means always.
  virtual void watch(const Proceed* proceed) = 0;

  // Opens the problem at v, a padded vector, the current point from then on.
  virtual Evaluation open(const NeuronProblem& problem, const Limits& limits, const double* v) = 0;
  // The largest slope.
  virtual double steepest() const = 0;
  // Walks downhill on O itself from v, the current point, which is not zero, and writes the end as an answer. Nothing
  // is sure about it: O may be as at v, or, by rounding, above.
  virtual Outcome descend(const double* v, double* answer) = 0;
  // Solves the programme with the tangent at v, the current point, from there, and writes the answer. With `next`, v is the
  // last answer.
  virtual Outcome solve(const double* v, bool next, double* answer) = 0;
  // Evaluates a trial point: the last answer, or another one.
  virtual Evaluation evaluate(const double* trial, bool is_answer) = 0;
  // Makes the point of the last `evaluate` the current one.
  virtual void accept(const Evaluation& found) = 0;
  // By how much O at an answer may be above that at v, the current point: rounding, for which slopes that cancel in O count,
  // and what rows lift the majoriser off O that are negative by noise, but count as active.
  virtual double rounding(const double* v) = 0;
  // Evaluates all rows at v, the current point or zero, and returns O there without its penalty.
  virtual double certify(const double* v) = 0;
  // Puts the neuron back into the network as it was certified.
  virtual void close() = 0;
};

}  // namespace dconnet
