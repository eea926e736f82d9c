// Tests of the point zero, where every row is at its kink at once: whether it solves the programme, and the way down if not.
//
// Zero is the solution if some multipliers between zero and the slopes beta have Qᵀ lambda = t. Both tests look for
//
//   lambda_j(x) = base_j + q_j x, moved back into [0, beta_j],
//
// by Newton's method for x, from zero. Without a solution x grows, and is a direction in which the programme falls.
#pragma once

#include <cstddef>
#include <vector>

#include "active_gram.hpp"
#include "neuron_rows.hpp"
#include "programme.hpp"

namespace dconnet {

enum class OriginVerdict { kSolution, kDescends, kUnknown };

// For rows in memory, one multiplier each. For an orthonormal design, the nearest multipliers with Qᵀ lambda = t are one
// product away: projecting on those and on the bounds in turn is often enough, and Newton's method is needed only where that is
// slow.
class OriginTest {
 public:
  OriginTest(const Design& design, ActiveGram::Changes& changes, Scratch& scratch);

  // Starts from the multipliers, or from a guess if they are all zero. If zero is the solution, (v, z, multipliers) are
  // that; if the programme falls from zero, v and z are the lowest point on the way found; else all are zero. Adds the
  // number of rounds to `rounds`.
  OriginVerdict examine(const Programme& programme, std::size_t max_rounds, const Iterate& at, std::size_t& rounds);

 private:
  void guess(const Programme& programme, double* buffer, double* multipliers) const;
  OriginVerdict project(const Programme& programme, std::size_t max_rounds, const Iterate& at, std::size_t& rounds);
  OriginVerdict newton(const Programme& programme, std::size_t max_rounds, const Iterate& at, std::size_t& rounds);
  bool newton_step(const Programme& programme, const double* multipliers);
  double largest_defect(const Programme& programme, const double* multipliers);
  bool falls_along(const Programme& programme, const double* direction, double* v, double* z) const;

  const Design& design_;
  std::vector<double> defect_, x_, gram_;  // columns: t - Qᵀ multipliers, and x; the last one columns by columns
  std::vector<double>& base_;              // rows
  ActiveGram::Changes& changes_;
};

// Without an array for all rows, from sums over them; base = beta / 2. Where rows are many, most multipliers
// need to move little, and a few rounds are enough.
class OriginTestByPasses {
 public:
  explicit OriginTestByPasses(NeuronRows& passes);

  // The programme has the linear term t, and the slopes beta_g of the neuron that is open. If it falls from zero, v becomes
  // the lowest point on the way found. Adds the number of rounds, each of which is a pass over all rows, to `rounds`.
  OriginVerdict examine(const double* linear, double curvature, double gamma, double* v, std::size_t& rounds);

 private:
  const double* pull() const { return sums_.data() + defect_.size() * defect_.size(); }
  const double* rise() const { return pull() + defect_.size(); }

  NeuronRows& passes_;
  std::vector<double> x_, defect_;    // columns
  std::vector<double> sums_;          // see `NeuronRows::zero_sums`
};

}  // namespace dconnet
