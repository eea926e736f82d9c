// The most useful new neuron for the residual r of a network, of shape (rows, n_outputs).
//
// A neuron with the directions v of its hidden and u of its output weights, |v| = |u| = 1, and weight c >= 0 changes F
// by -2 c (u'r'max(Qv, 0) - gamma) + c² |max(Qv, 0)|²: it lowers F exactly if the match u'r'max(Qv, 0) exceeds gamma,
// with the best c in closed form. The best u for a v is that of r'max(Qv, 0), and then the match is its length; with
// one output u is a sign, which is given to each start. v is sought by following the gradient of the match from several
// random starts at once, a heuristic; the reported decrease of the best neuron is exact.
#pragma once

#include <cstddef>
#include <vector>

#include "evaluations.hpp"
#include "random.hpp"

namespace dconnet {

class Newcomer {
 public:
  explicit Newcomer(Evaluations& evaluations);

  // True if a neuron was found that lowers F of this network.
  bool seek(const double* theta, Random& random);

  const double* direction() const { return best_.data(); }      // columns
  const double* output() const { return best_output_.data(); }  // n_outputs
  double weight() const { return weight_; }
  // By how much it lowers F.
  double decrease() const { return decrease_; }

 private:
  // A way up, from one start.
  struct Climb {
    std::vector<double> v, output;  // columns, n_outputs
    double last = 0.0;
  };

  void draw(Random& random);
  bool make_unit(Climb& climb) const;
  bool record(Climb& climb, const Evaluations::Match& match, int step);
  double match_of(Climb& climb, const double* products) const;
  void follow(Climb& climb, const double* pulls) const;

  Evaluations& evaluations_;
  std::vector<Climb> climbs_;
  std::vector<Climb*> under_way_;
  std::vector<double> directions_;
  std::vector<double> best_, best_output_;  // columns, n_outputs
  double weight_ = 0.0, decrease_ = 0.0;
};

}  // namespace dconnet
