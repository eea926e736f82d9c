// The global maximum of a network over a polytope by branch and bound over the signs of its neurons.
//
//   maximise  <slopes, x> + sum over l of alpha_l max(<w_l, x> + b_l, 0),  0 <= x <= 1,  least <= A x <= most
//
// A neuron with alpha_l < 0 adds a concave function, which the relaxation takes as it is. One with alpha_l > 0 is
// replaced by the chord between the ends of its range, and branched upon. The ranges shrink with every branching, by
// interval arithmetic on all rows and, at every second depth, by linear programmes over the part, which is what keeps
// the tree small. Multipliers of the relaxation fix signs that cannot lead above the best point.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "random.hpp"
#include "relaxation.hpp"

namespace dconnet {

class SignSearch {
 public:
  // G holds the rows of the neurons and then those of the constraints; step is by variable, zero if it is continuous.
  SignSearch(const double* G, const double* g, const double* alpha, const double* slopes, const double* low,
             const double* high, const double* step, std::size_t neurons, std::size_t constraints,
             std::size_t columns);

  // Go on until the gap is closed, or a number of seconds has passed; true if it is closed.
  bool run(double seconds, double relative_gap, double absolute_gap, double offset);

  bool has_point() const { return best_ > -std::numeric_limits<double>::infinity(); }
  double best() const { return best_; }
  double bound() const;
  const std::vector<double>& point() const { return best_x_; }
  std::size_t nodes() const { return nodes_; }
  std::size_t waiting() const { return open_.size(); }

 private:
  struct Decision {
    std::uint32_t variable;
    std::int8_t upper;  // whether the upper bound is meant
    double value;
  };
  struct Node {
    double bound;
    int depth;
    std::vector<Decision> decisions;
    bool operator<(const Node& other) const { return bound < other.bound; }
  };

  bool is_convex(std::size_t l) const { return alpha_[l] > 0.0; }
  double cutoff() const;
  void begin();
  void dive(Node node);
  void load(const Node& node);
  bool propagate();
  bool tighten_row(std::size_t r, bool& changed);
  void relax();
  bool narrow(Node& node);
  bool narrow_end(std::size_t l, bool upper);
  void note_reach(bool first);
  bool settle(const Node& node, double& bound);
  void close(double bound);
  double fixed_signs(Node& node, double bound);
  bool branch(Node& node, double bound, bool solved);
  void try_point(const std::vector<double>& x);
  void ascend(std::vector<double> x);
  double row_value(std::size_t r, const std::vector<double>& x) const;
  std::pair<double, double> row_range(std::size_t r) const;
  double value(const std::vector<double>& x) const;

  Relaxation relaxation_;
  std::vector<double> alpha_, slopes_, root_low_, root_high_, step_;
  std::size_t neurons_, columns_;
  std::vector<Node> open_;
  std::vector<double> best_x_, x_;
  std::vector<double> least_, most_;  // how far the arguments of the neurons reach at the points of a part
  double best_ = -std::numeric_limits<double>::infinity();
  double closed_ = -std::numeric_limits<double>::infinity();
  double relative_gap_ = 0.0, absolute_gap_ = 0.0, offset_ = 0.0;
  std::size_t nodes_ = 0;
  bool begun_ = false;
  Random random_;
};

}  // namespace dconnet
