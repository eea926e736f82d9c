// The rows of the data as a sweep needs them: what the network says for each of them, and the problem of one neuron.
//
// The neuron's problem, with the other neurons fixed, is a sum over rows,
//
//   O(v) = sum_j (beta_g - beta_h)_j max(z_j, 0) + a sum_j max(z_j, 0)² + gamma |v|²,   z = Q v.
//
// With several outputs it has the slopes c_j = -2 sum_o alpha_lo r_jo, for the residual r without the neuron, and the
// curvature a = |alpha_l|². The paper's split of c into beta_g and beta_h is made for each output by itself, and its parts
// are summed over the outputs; the net split is that of the sum.
//
// Where rows are many, all passes over them in a sweep are here and in `NearRows`, unless a programme needs the walk over
// all rows. They are shared by a team of threads, and sums are merged leaf by leaf.
#pragma once

#include <cstddef>
#include <vector>

#include "rows.hpp"

namespace dconnet {

enum class Split { kPaper, kNet };

// Rows that sit at their kink come back from a solver as tiny numbers of either sign. They count as zero, where the
// Heaviside function of the paper is one; otherwise the DCA would flip subgradients for ever at a converged point.
inline constexpr double kNeuronKinkTolerance = 1e-9;

class NeuronRows {
 public:
  NeuronRows(const Design& design, std::size_t n_hidden, std::size_t n_outputs, Team& team);

  const Design& design() const { return rows_.design(); }
  std::size_t n_hidden() const { return n_hidden_; }
  std::size_t n_outputs() const { return n_outputs_; }
  Rows& rows() { return rows_; }

  // Takes up a network with targets y (rows, n_outputs), alpha (n_hidden, n_outputs) and V (n_hidden, columns). Returns
  // the sum of its squared residuals.
  double take_up(const double* y, const double* alpha, const double* V);

  // Opens the problem of a neuron with these weights, which the network has, and takes it for a trial.
  void open(const double* alpha, const double* v, Split split);
  // Gives the network the neuron as it is at hand.
  void close(const double* alpha);

  const double* beta_g() const { return beta_g_.data(); }
  const double* beta_h() const { return beta_h_.data(); }
  // The largest slope.
  double steepest() const { return steepest_; }
  // |q_j|, and a little more than rounding.
  const double* norms() const { return norms_.data(); }

  // Preactivations of the weights at hand, and of a trial.
  const double* z() const { return z_.data(); }
  double* trial_z() { return trial_z_.data(); }

  // What a pass at a trial tells.
  struct Look {
    double hinges = 0.0;         // O without its penalty
    double convex_hinges = 0.0;  // the same without beta_h
    double largest = 0.0;        // |z_j|
    std::size_t changed = 0;     // rows that the tangent at hand has on the other side
  };

  // Looks at a trial: its preactivations, unless they are known, the value there, and the tangent of the concave part.
  // With `with_slope`, only rows that have a part in the tangent count as changed.
  Look look(const double* v, double curvature, bool with_slope, bool known);
  // Puts the trial in the place of the weights at hand, with the tangent that was found there.
  void accept();
  // The gradient of the concave part at the weights at hand.
  const double* tangent() const { return tangent_.data(); }

  // The gradient of the convex part at the weights at hand, without its penalty.
  void convex_pull(double curvature, double* pull);

  // How much of O may be rounding: the slopes that cancel in it at the weights at hand.
  double cancelling() const;
  // Rows that are negative by noise but count as active lift the majoriser off O by this much.
  double lift() const;
  // Weights of zero are at hand then.
  void set_zero();

 private:
  void add_outputs(const Leaf& leaf, const double* alpha, const double* z, double sign);
  void split_slopes(const Leaf& leaf, const double* alpha, Split split);

  std::size_t n_hidden_, n_outputs_;
  Rows rows_;
  std::vector<double> V_;  // (n_hidden, stride)
  std::vector<double> targets_, positive_, negative_;  // (n_outputs, rows): y, and what neurons of either sign add up to
  std::vector<double> beta_g_, beta_h_, z_, trial_z_, norms_, weights_;  // rows
  std::vector<unsigned char> active_, trial_active_;   // rows in the tangent
  std::vector<double> tangent_, trial_tangent_;        // columns
  LeafSums sums_;                                      // for `Look`, and other sums
  LeafSums tangents_;
  double steepest_ = 0.0;
};

}  // namespace dconnet
