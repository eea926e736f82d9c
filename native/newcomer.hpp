// The most useful new neuron for a residual r, of shape (rows, n_outputs).
//
// A neuron with the directions v of its hidden and u of its output weights, |v| = |u| = 1, and weight c >= 0 changes F
// by -2 c (u'r'max(Qv, 0) - gamma) + c² |max(Qv, 0)|²: it lowers F exactly if the match u'r'max(Qv, 0) exceeds gamma,
// with the best c in closed form. The best u for a v is that of r'max(Qv, 0), and then the match is its length; with
// one output u is a sign, which is given to each start. v is sought by following the gradient of the match from several
// random starts, a heuristic; the decrease that is told of the best neuron seen is exact.
#pragma once

#include <cstddef>
#include <vector>

#include "random.hpp"
#include "rows.hpp"

namespace dconnet {

class Newcomer {
 public:
  Newcomer(const Design& design, std::size_t n_outputs, Team& team);

  // True if a neuron was found that lowers F.
  bool seek(const double* residual, double gamma, Random& random);

  const double* direction() const { return best_.data(); }         // columns
  const double* output() const { return best_output_.data(); }  // n_outputs
  double weight() const { return weight_; }
  // By how much it lowers F.
  double decrease() const { return decrease_; }

 private:
  void climb(const double* residual, double gamma);
  double activate(const double* residual);
  double match();
  void follow(const double* residual);

  Rows rows_;
  std::size_t n_outputs_;
  std::vector<double> v_, best_;                         // columns
  std::vector<double> active_, pull_;                    // rows
  std::vector<double> output_, best_output_, products_;  // n_outputs, and one more of the last
  LeafSums sums_;                                        // of the products with the residual, and of squares
  double weight_ = 0.0, decrease_ = 0.0;
};

}  // namespace dconnet
