// What a search asks about whole networks: F = m RegLoss with its gradient, the ridge regression of the output weights,
// how well a new neuron would match the residual.
//
//   F(V, alpha) = |y - sum_l max(Q v_l, 0) alpha_l'|² + gamma (|V|² + |alpha|²)
//
// All of it follows from a few kinds of sums over the rows. Subclasses provide these: the rows may be in this process
// (`Objective`), or with the workers of a cluster.
#pragma once

#include <cstddef>
#include <vector>

#include "layout.hpp"
#include "lbfgs.hpp"

namespace dconnet {

// The sums over the rows that can be asked for at a network theta.
enum class Ask {
  kGradient,  // what the rows add to the gradient of F, as `Layout` has it, then the squared residuals
  kValue,     // the squared residuals
  kOutputs,   // the products of outputs and targets, then the squared outputs
  kMoments,   // the upper triangle of the Gram matrix of the neurons, (width, width), then their products with the targets
  kMatches,   // for each direction v that follows theta: max(Qv, 0)'r, |max(Qv, 0)|², and the derivative of the first in v
};

// How many numbers an answer has; of the kinds with directions, for each of them.
std::size_t answer_size(Ask ask, const Layout& layout);

class Evaluations : public Smooth {
 public:
  // `target_square` is the sum of the squared targets.
  Evaluations(const Layout& layout, double gamma, std::size_t rows, double target_square);

  const Layout& layout() const { return layout_; }
  double gamma() const { return gamma_; }
  std::size_t rows() const { return rows_; }
  double target_square() const { return target_square_; }

  std::size_t size() const override { return layout_.size(); }
  double gradient(const double* theta, double* gradient) override;
  double value(const double* theta);
  // Replaces alpha by the minimiser of F for these V, a ridge regression. By normal equations, which are
  // fast and exact enough for a start of L-BFGS; their factor also gives the removal costs.
  void solve_output_weights(double* theta);
  // By how much F rises for each neuron if it is removed and the other output weights are fitted again.
  void removal_costs(const double* theta, double* costs);

  // How the outputs agree with the targets.
  struct Agreement {
    double product, output_square;
  };
  Agreement agreement(const double* theta);

  // How new neurons match the residual r, (rows, n_outputs).
  struct Match {
    const double* products;  // max(Qv, 0)'r, n_outputs
    double square;           // |max(Qv, 0)|²
    const double* pulls;     // derivative of each product in v, (n_outputs, stride)
  };
  // For directions (count, stride); `match` returns the results until the next call.
  void match_all(const double* theta, const double* directions, std::size_t count);
  Match match(std::size_t i) const;

  // Copies some rows of the design, (count, stride), and their targets, (count, n_outputs).
  virtual void copy_rows(const std::size_t* rows, std::size_t count, double* design, double* y) = 0;
  // How many rows may be copied.
  virtual std::size_t most_copied() const { return rows(); }

 protected:
  // The sums over all rows; the input is theta and, if asked about, directions.
  virtual void sum(Ask ask, const double* input, std::size_t directions, double* sums) = 0;

 private:
  double penalty(const double* theta) const;
  bool factorise_outputs(const double* theta);
  void solve_moments();

  Layout layout_;
  double gamma_;
  std::size_t rows_;
  double target_square_;
  std::vector<double> answer_, question_, matches_;
  std::vector<double> gram_, moments_, unit_;
};

}  // namespace dconnet
