// The majoriser where rows are few, or few for the columns: programmes over all rows, which are in this process.
//
// It is not `NearMajoriser` with every row near: that would sum in another order, so that results change in the last digits, and
// copy the rows for each visit (1.17 to 1.29 times the instructions of a sweep over 300 or 2,000 rows).
#pragma once

#include <memory>
#include <vector>

#include "majoriser.hpp"
#include "neuron_rows.hpp"
#include "solver.hpp"

namespace dconnet {

// The solver over all rows, with what it remembers.
class SolverOverAll {
 public:
  SolverOverAll(const Design& design, Team* team);

  void watch(const Proceed* proceed) { solver_.watch(proceed); }
  const double* norms() const { return solver_.norms(); }
  // The next programme belongs to another neuron.
  void forget();
  // Solves from v with z, or from the last answer with `next`, and replaces both.
  Outcome solve(const Programme& programme, const Limits& limits, bool next, double* v, double* z);
  // Walks downhill on a programme that need not be convex, from v with z, and replaces both.
  Outcome descend(const Programme& programme, std::size_t max_steps, double* v, double* z) {
    return solver_.descend(programme, max_steps, false, {v, z, multipliers_.data()}, gram_);
  }

 private:
  void guess_multipliers(const Programme& programme, const double* z);

  Solver solver_;
  ActiveGram gram_;
  std::vector<double> multipliers_;
};

class AllRows : public Majoriser {
 public:
  explicit AllRows(NeuronRows& rows);

  void watch(const Proceed* proceed) override { solver_.watch(proceed); }
  Evaluation open(const NeuronProblem& problem, const Limits& limits, const double* v) override;
  double steepest() const override { return steepest_; }
  Outcome descend(const double* v, double* answer) override;
  Outcome solve(const double* v, bool next, double* answer) override;
  Evaluation evaluate(const double* trial, bool is_answer) override;
  void accept(const Evaluation& found) override;
  double rounding(const double* v) override;
  double certify(const double* v) override;
  void close() override { rows_.close(problem_.alpha); }

 private:
  // Sums for each leaf: those of `PassSum`, but the number of rows with other marks in the place of the largest slope.
  static constexpr std::size_t kChangedRows = kSteepest, kSums = kPassSums;

  Evaluation evaluate_trial(const double* v, bool known);

  NeuronRows& rows_;
  SolverOverAll solver_;
  NeuronProblem problem_{};
  Limits limits_{};
  double steepest_ = 0.0, hinges_ = 0.0;
  std::vector<double> trial_z_, weights_;             // rows
  std::vector<unsigned char> marks_, trial_marks_;    // of the rows: one if it is in the tangent
  std::vector<double> tangent_, trial_tangent_;       // columns
  std::vector<double> net_slopes_, no_tangent_;       // rows, columns: of O
  LeafSums sums_, tangents_;
};

}  // namespace dconnet
