// The point zero, where every row is at its kink at once: whether it solves the programme, and the way down if not.
//
// Zero is the solution if some multipliers between zero and the slopes have Qᵀ lambda = t. For an orthonormal design,
// the nearest multipliers with Qᵀ lambda = t are one product away: projecting on those and on the bounds in turn finds
// a pair of both, or a direction in which the programme falls.
#pragma once

#include <cstddef>
#include <vector>

#include "programme.hpp"

namespace dconnet {

class Origin {
 public:
  explicit Origin(const Design& design);

  enum class Verdict { kSolution, kDescends, kUnknown };

  // Starts from the multipliers, or from a guess if they are all zero. If zero is the solution, (v, z, multipliers) are
  // that; if the programme falls from zero, v and z are the lowest point on the way found; else all are zero. Adds the
  // rounds made to `rounds`.
  Verdict examine(const Programme& programme, std::size_t max_rounds, double* v, double* z, double* multipliers,
                  std::size_t& rounds);

 private:
  void guess(const Programme& programme, double* room, double* multipliers) const;

  const Design& design_;
  std::vector<double> defect_;  // columns
};

}  // namespace dconnet
