// The point zero, where every row is at its kink at once, for rows that may be anywhere: whether it solves the programme, and
// the way down if not. `Origin` does the same for rows that are at hand one by one.
//
// Zero is the solution if some multipliers between zero and the slopes beta have Qᵀ lambda = t. They are looked for among
//
//   lambda_j(x) = beta_j / 2 + q_j x, moved back into [0, beta_j],
//
// by Newton's method for x, from zero. Where rows are many, most multipliers need to move little, and a few rounds are enough.
// Without a solution x grows, and is a direction in which the programme falls.
#pragma once

#include <cstddef>
#include <vector>

#include "leaf_passes.hpp"
#include "origin.hpp"

namespace dconnet {

class ZeroPoint {
 public:
  using Verdict = Origin::Verdict;

  explicit ZeroPoint(LeafPasses& passes);

  // The programme has the linear term t, and the slopes beta_g of the neuron that is open. If it falls from zero, v becomes
  // the lowest point on the way found. Adds the rounds made, each of which is a pass over all rows, to `rounds`.
  Verdict examine(const double* linear, double curvature, double gamma, double* v, std::size_t& rounds);

 private:
  void add_up();
  double largest_defect(const double* linear);
  bool falls(const double* linear, double curvature, double gamma, double* v) const;
  bool newton_step();
  const double* pull() const { return sums_.data() + defect_.size() * defect_.size(); }
  const double* rise() const { return pull() + defect_.size(); }

  LeafPasses& passes_;
  std::vector<double> x_, defect_;      // columns
  std::vector<double> sums_, parts_;  // see `LeafPasses::zero_sums`: of all leaves, and of some
};

}  // namespace dconnet
