// The point zero, where every row is at its kink at once: whether it solves the programme, and the way down if not.
//
// Zero is the solution if some multipliers between zero and the slopes have Qᵀ lambda = t. For an orthonormal design,
// the nearest multipliers with Qᵀ lambda = t are one product away: projecting on those and on the bounds in turn is
// often enough. Where it is slow, Newton's method finds the nearest multipliers that are both. Either may come upon a
// direction in which the programme falls instead.
#pragma once

#include <cstddef>
#include <vector>

#include "active_gram.hpp"
#include "programme.hpp"

namespace dconnet {

class Origin {
 public:
  Origin(const Design& design, ActiveGram::Room& room, Scratch& scratch);

  enum class Verdict { kSolution, kDescends, kUnknown };

  // Starts from the multipliers, or from a guess if they are all zero. If zero is the solution, (v, z, multipliers) are
  // that; if the programme falls from zero, v and z are the lowest point on the way found; else all are zero. Adds the
  // rounds made to `rounds`.
  Verdict examine(const Programme& programme, std::size_t max_rounds, const Iterate& at, std::size_t& rounds);

 private:
  void guess(const Programme& programme, double* room, double* multipliers) const;
  Verdict project(const Programme& programme, std::size_t max_rounds, const Iterate& at, std::size_t& rounds);
  Verdict newton(const Programme& programme, std::size_t max_rounds, const Iterate& at, std::size_t& rounds);
  bool newton_step(const Programme& programme, const double* multipliers);
  // Of t - Qᵀ multipliers, which is left in defect_.
  double largest_defect(const Programme& programme, const double* multipliers);
  bool falls_along(const Programme& programme, const double* direction, double* v, double* z) const;

  const Design& design_;
  std::vector<double> defect_, shift_, gram_;  // columns; the last one columns by columns
  std::vector<double>& base_;                  // rows
  ActiveGram::Room& room_;
};

}  // namespace dconnet
