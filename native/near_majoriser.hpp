// The majoriser where rows are many: programmes are solved over the rows near their kinks (`NearRows`), with sums over the others
// (`FarRows`). The programme falls with every answer, and an answer counts only once all far rows are known to have kept their
// sides.
//
// State from call to call, beside the problem:
//  - The *current point* is where the tangent is taken; the *trial point* is that of the last `evaluate`. `accept` makes the trial
//    point the current one: tangent_, source_ and current_ belong to the current point, trial_tangent_ and trial_source_ to
//    the trial point.
//  - source_ is kNearRows if the tangent was computed from near rows and far sums: these then hold at the current point, and a
//    programme can continue from the last answer. It is kAllRows if it was computed by a pass over all rows: the next
//    programme needs a new centre.
//  - recentred_ belongs to one call of `solve` or `descend`: the near rows were replaced, so that marks of rows which were near
//    before are lost, and the number of changed sides is a lower bound.
//  - far_rows_changed_: far rows changed sides in the last programme and were added to the near ones. The next programme begins
//    with a new centre, because near rows only ever grow in number about the same one.
//  - lowest_ and lowest_value_ belong to one call of `solve` or `descend`: the best point of the programme, or of O while descends_
//    is set, so far. Every new centre and every point from which a programme continues is lowest_.
#pragma once

#include <memory>
#include <vector>

#include "all_rows.hpp"
#include "far_rows.hpp"
#include "majoriser.hpp"
#include "near_rows.hpp"
#include "origin.hpp"

namespace dconnet {

class NearMajoriser : public Majoriser {
 public:
  explicit NearMajoriser(NeuronRows& passes);

  void watch(const Proceed* proceed) override;
  Evaluation open(const NeuronProblem& problem, const Limits& limits, const double* v) override;
  double steepest() const override { return steepest_; }
  Outcome descend(const double* v, double* answer) override;
  Outcome solve(const double* v, bool next, double* answer) override;
  Evaluation evaluate(const double* trial, bool is_answer) override;
  void accept(const Evaluation& found) override;
  double rounding(const double* v) override;
  double certify(const double* v) override { return far_.evaluate(v, false).hinges; }
  void close() override { far_.passes().close(problem_.alpha); }

 private:
  bool solve_over_near(const double* v, bool next, double* answer, Outcome& outcome);
  bool solve_in_rounds(const double* v, bool next, double* answer, Outcome& outcome);
  bool solve_at_zero(const double* v, double* answer, Outcome& outcome);
  Outcome end_at_zero(double* answer, std::size_t iterations);
  bool centre(const double* v);
  bool add_changed(const double* v, std::size_t n_changed, bool& next, double* answer);
  bool centre_lower(const double* v, double* answer);
  Outcome solve_over_all(const double* v, double* answer);
  NearRows::Values evaluate_near(const double* trial) {
    return near_.evaluate(trial, problem_.curvature, trial_tangent_.data());
  }
  // P at v, or O while `descend` runs, from what all rows or the near rows add to both.
  template <typename Values>
  double value(const double* v, const Values& found) const {
    const double penalty = problem_.gamma * dot(v, v, far_.columns());
    return descends_ ? penalty + found.hinges : penalty - dot(tangent_.data(), v, far_.columns()) + found.convex_hinges;
  }
  // Makes v the lowest point if P or O is lower there; false if it is not.
  template <typename Values>
  bool is_lower(const double* v, const Values& found) {
    const double reached = value(v, found);
    if (!(reached < lowest_value_)) return false;
    lowest_value_ = reached;
    std::copy_n(v, lowest_.size(), lowest_.data());
    return true;
  }
  void halve(double* answer) const;

  // What a tangent was computed from.
  enum class Source : unsigned char { kNearRows, kAllRows };

  FarRows far_;
  NearRows near_;
  OriginTestByPasses origin_;
  std::unique_ptr<SolverOverAll> all_;  // made the first time that it is needed
  const Proceed* watch_ = nullptr;
  NeuronProblem problem_{};
  Limits limits_{};
  double steepest_ = 0.0;
  Source source_ = Source::kAllRows, trial_source_ = Source::kAllRows;
  bool recentred_ = false, far_rows_changed_ = false;
  bool descends_ = false;
  Evaluation current_{};  // of the current point
  double lowest_value_ = 0.0;
  std::size_t changed_ = 0;  // rows with changed sides after the last programme over all rows
  std::vector<double> tangent_, trial_tangent_, lowest_;  // columns
  std::vector<double> z_, z_before_;                             // all rows, for programmes over all of them
  std::vector<double> along_kinks_;  // rows: products with the kink direction
};

}  // namespace dconnet
