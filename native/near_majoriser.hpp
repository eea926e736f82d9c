// Programmes over the rows near their kinks, where rows are many: always downhill, and always certain in the end that the
// other rows have kept their sides.
#pragma once

#include <memory>
#include <vector>

#include "all_rows.hpp"
#include "far_rows.hpp"
#include "majoriser.hpp"
#include "near_rows.hpp"
#include "sample.hpp"
#include "origin.hpp"

namespace dconnet {

class NearMajoriser : public Majoriser {
 public:
  explicit NearMajoriser(LeafPasses& passes);

  void watch(const Proceed* proceed) override;
  Evaluation open(const NeuronProblem& problem, const Limits& limits, const double* v) override;
  double steepest() const override { return steepest_; }
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
  bool start_from_sample(const double* v, double* answer);
  bool centre(const double* v);
  bool follow(const double* v, std::size_t n_changed, bool& next, double* answer);
  bool centre_lower(const double* v, double* answer);
  Outcome solve_over_all(const double* v, double* answer);
  NearRows::Values evaluate_near(const double* trial) {
    return near_.evaluate(trial, problem_.curvature, trial_tangent_.data());
  }
  double convex_value(const double* v, double convex_hinges) const;
  bool is_lower(const double* v, double convex_hinges);
  void halve(double* answer) const;

  // What tells of the point that was looked at last, and of the one at hand: the near rows and the sums over the others,
  // or a pass over all rows.
  enum class Source : unsigned char { kNearRows, kAllRows };

  FarRows far_;
  NearRows near_;
  OriginTestByPasses origin_;
  std::unique_ptr<Sample> sample_;
  std::unique_ptr<SolverOverAll> all_;  // made the first time that it is needed
  const Proceed* watch_ = nullptr;
  NeuronProblem problem_{};
  Limits limits_{};
  double steepest_ = 0.0;
  Source source_ = Source::kAllRows, trial_source_ = Source::kAllRows;
  bool recentred_ = false;     // since the point at hand was accepted
  bool is_far_ = true;         // whether the next solution may be far away
  bool far_rows_changed_ = false;       // whether rows have, in the last programme
  bool at_zero_ = false;       // whether the point at hand is zero
  double convex_hinges_ = 0.0;    // at the point at hand
  double lowest_value_ = 0.0;     // of the programme, at lowest_
  std::size_t changed_ = 0;       // rows, by the last programme over all of them
  std::vector<double> tangent_, trial_tangent_, lowest_, pull_;  // columns
  std::vector<double> z_, z_before_;                             // all rows, where programmes are solved over these
  std::vector<double> along_kinks_;  // rows: products with the kink direction
};

}  // namespace dconnet
