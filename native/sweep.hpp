// One sweep over the neurons: the DC subproblem of each, in the given order.
//
// With several outputs a neuron has the slopes c_j = -2 sum_o alpha_lo r_jo, for the residual r without it, and the
// curvature |alpha_l|². The paper's split of c is made for each output by itself, and its parts are summed over the
// outputs; the net split is that of the sum.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "neuron.hpp"

namespace dconnet {

enum class Split { kPaper, kNet };

class Sweep {
 public:
  Sweep(Design design, std::size_t n_hidden, std::size_t n_outputs);
  Sweep(const double* design, std::size_t rows, std::size_t columns, std::size_t n_hidden, std::size_t n_outputs)
      : Sweep(Design(design, rows, columns), n_hidden, n_outputs) {}

  const Design& design() const { return solver_.design(); }
  std::size_t n_hidden() const { return grams_.size(); }
  std::size_t n_outputs() const { return n_outputs_; }
  // All that one sweep leaves to the next: the matrices of the neurons, and that of the sample if there is one.
  std::vector<ActiveGram>& grams() { return grams_; }
  ActiveGram* sample_gram() { return solver_.sample_gram(); }

  // Improves the hidden weights V (n_hidden, columns) and the preactivations Z (n_hidden, rows) in place, for the
  // targets y (rows, n_outputs) and the output weights alpha (n_hidden, n_outputs). `proceed` is asked before each
  // neuron; returns how many were visited.
  std::size_t run(const double* y, const double* alpha, double gamma, const std::size_t* order, Split split,
                  const Limits& limits, const std::function<bool()>& proceed, double* V, double* Z, Tally& tally);

 private:
  const double* by_output(const double* y);
  void sum_outputs(const double* alpha, const double* Z);
  void add_outputs(const double* alpha, const double* z, double sign);
  void split_slopes(const double* y, const double* alpha, Split split);
  double objective_size(const double* y, double gamma, const double* alpha, const double* V) const;

  std::size_t n_outputs_;
  Solver solver_;
  Neuron neuron_;
  std::vector<ActiveGram> grams_;              // one a neuron
  // (n_outputs, rows): the targets, and the output of the neurons with positive and with negative weight
  std::vector<double> targets_, positive_, negative_;
  std::vector<double> beta_g_, beta_h_;        // rows
};

}  // namespace dconnet
