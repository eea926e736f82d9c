// The DC subproblem of one neuron and the DCA that solves it.
//
// Each step replaces the concave part of the problem (see `NeuronRows`) by its tangent and minimises the convex majoriser
// that is left. Where rows are many, the programme is solved over those that are near their kinks.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "near_rows.hpp"
#include "neuron_rows.hpp"
#include "sample.hpp"
#include "solver.hpp"

namespace dconnet {

// Norm of the difference of two iterates at which the paper ends the DCA.
inline constexpr double kDcaTolerance = 1e-12;
// A rise of the objective by less than this fraction of its terms is rounding.
inline constexpr double kObjectiveRounding = 1e-13;

struct NeuronProblem {
  double curvature;  // a
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
  std::size_t iterations = 0;  // of the solver: steps of the walk, nearly always
  std::size_t refused = 0;     // steps that would have raised the objective by more than rounding
  std::size_t unsolved = 0;    // programmes that reached the iteration limit
};

class Neuron {
 public:
  explicit Neuron(NeuronRows& rows);

  // Runs the DCA on the problem that the rows have opened at v, and replaces v by where it ends. False if it was told not
  // to proceed; v is then where the last whole step ended.
  bool improve(const NeuronProblem& problem, const Limits& limits, const Proceed& proceed, double* v, Tally& tally);

 private:
  // An answer to a programme, whose preactivations the rows have as their trial.
  struct Answer {
    Outcome outcome;
    bool seen = false;  // whether the rows have looked at it
    NeuronRows::Look look;
  };

  void watch(const Proceed* proceed);
  void prepare_for_all();
  Answer solve(const NeuronProblem& problem, const Limits& limits, const double* v, double convex, bool next);
  Answer solve_over_all(const NeuronProblem& problem, const Limits& limits, const double* v, bool from_zero, bool next);
  bool solve_over_near(const NeuronProblem& problem, const Limits& limits, const double* v, double convex, bool next,
                       Answer& answer);
  bool start_from_sample(const NeuronProblem& problem, const double* v, double& lowest);
  bool return_halfway(const NeuronProblem& problem, double& lowest);
  Programme programme(const NeuronProblem& problem) const;
  double convex_value(const NeuronProblem& problem, const double* v, double convex_hinges) const;
  void guess_multipliers(const NeuronProblem& problem);
  bool is_noise(const NeuronProblem& problem, const NeuronRows::Look& look) const;

  NeuronRows& rows_;
  std::unique_ptr<Solver> solver_;    // over all rows; where these are many, made the first time it is needed
  std::unique_ptr<ActiveGram> gram_;  // its matrix
  std::unique_ptr<NearRows> near_;    // where rows are many
  std::unique_ptr<Sample> sample_;    // likewise
  const Proceed* watch_ = nullptr;
  bool is_far_ = true;                // whether the next solution may be far away
  std::vector<double> candidate_, lowest_, pull_;  // columns
  std::vector<double> multipliers_;                // all rows, for the solver over all of them
};

}  // namespace dconnet
