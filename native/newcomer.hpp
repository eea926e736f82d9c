// The most useful new neuron for a residual r.
//
// A neuron with direction v, |v| = 1, sign s and weight c >= 0 changes F by -2 c (s r'max(Qv, 0) - gamma)
// + c² |max(Qv, 0)|²: it lowers F exactly if the match s r'max(Qv, 0) exceeds gamma, with the best c in closed form. The
// direction is sought by following the gradient of the match from several random starts, a heuristic; the decrease that
// is told of the best direction seen is exact.
#pragma once

#include <cstddef>
#include <vector>

#include "design.hpp"
#include "random.hpp"

namespace dconnet {

class Newcomer {
 public:
  explicit Newcomer(const Design& design);

  // True if a neuron was found that lowers F.
  bool seek(const double* residual, double gamma, Random& random);

  const double* direction() const { return best_.data(); }  // columns
  double sign() const { return sign_; }
  double weight() const { return weight_; }
  // By how much it lowers F.
  double decrease() const { return decrease_; }

 private:
  void climb(const double* residual, double gamma, double sign);

  const Design& design_;
  std::vector<double> v_, best_, z_, pull_;
  double sign_ = 1.0, weight_ = 0.0, decrease_ = 0.0;
};

}  // namespace dconnet
