// The objective of the whole network, F = m RegLoss, and its gradient.
//
//   F(V, alpha) = |y - sum_l max(Q v_l, 0) alpha_l'|² + gamma (|V|² + |alpha|²)
//
// The targets y have a column for each output, and so has alpha, whose row alpha_l belongs to neuron l.
// All rows are visited once, in tiles that stay in the cache: forth to the residual and back to the gradient. A team of
// threads shares the leaves.
#pragma once

#include <cstddef>
#include <vector>

#include "design.hpp"
#include "layout.hpp"
#include "leaves.hpp"
#include "smooth.hpp"
#include "team.hpp"

namespace dconnet {

class Objective : public Smooth {
 public:
  // y has the shape (rows, n_outputs).
  Objective(const Design& design, const double* y, double gamma, std::size_t n_hidden, std::size_t n_outputs,
            Team& team);

  const Design& design() const { return design_; }
  const Layout& layout() const { return layout_; }
  const double* targets() const { return y_; }
  double gamma() const { return gamma_; }

  std::size_t size() const override { return layout_.size(); }
  double gradient(const double* theta, double* gradient) override;
  // The value alone, with the residual (rows, n_outputs) if asked for.
  double value(const double* theta, double* residual = nullptr);
  // Replaces alpha by the minimiser of F for these V, a ridge regression. By normal equations: fast, for L-BFGS goes on
  // from there, and the factor tells the removal costs. The epoch ends with Python's output_layer, exact to rounding.
  void solve_output_weights(double* theta);
  // By how much F rises for each neuron if it is removed and the other output weights are fitted anew.
  void removal_costs(const double* theta, double* costs);

 private:
  // Room for some rows of all neurons.
  struct Tile {
    explicit Tile(const Layout& layout);
    std::vector<double> outputs, back, residual;
  };

  template <typename Body>
  void in_tiles(const double* theta, std::size_t leaf, std::size_t thread, const Body& body);
  double residuals_of(Tile& tile, const double* theta, std::size_t first, std::size_t count);
  double sum_of_squares() const;
  double penalty(const double* theta) const;
  bool factorise_outputs(const double* theta);
  void solve_moments();

  const Design& design_;
  const double* y_;
  double gamma_;
  Layout layout_;
  Leaves leaves_;
  Team& team_;
  std::vector<Tile> tiles_;  // one a thread
  LeafSums squares_, gradients_;
  std::vector<double> gram_, moments_, unit_;
};

}  // namespace dconnet
