// One sweep over the neurons: the DC subproblem of each, in the given order.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "neuron.hpp"

namespace dconnet {

enum class Split { kPaper, kNet };

class Sweep {
 public:
  Sweep(Design design, std::size_t n_hidden);
  Sweep(const double* design, std::size_t rows, std::size_t columns, std::size_t n_hidden)
      : Sweep(Design(design, rows, columns), n_hidden) {}

  const Design& design() const { return solver_.design(); }
  std::size_t n_hidden() const { return grams_.size(); }

  // Improves the hidden weights V (n_hidden, columns) and the preactivations Z (n_hidden, rows) in place, for the
  // targets y and the output weights alpha. `proceed` is asked before each neuron; returns how many were visited.
  std::size_t run(const double* y, const double* alpha, double gamma, const std::size_t* order, Split split,
                  const Limits& limits, const std::function<bool()>& proceed, double* V, double* Z, Tally& tally);

 private:
  void sum_outputs(const double* alpha, const double* Z);
  void add_output(double alpha, const double* z, double sign);
  void split_slopes(const double* y, double alpha, Split split);
  double objective_size(const double* y, double gamma, const double* alpha, const double* V) const;

  Solver solver_;
  Neuron neuron_;
  std::vector<ActiveGram> grams_;              // one a neuron
  std::vector<double> positive_, negative_;    // output of the neurons with positive and with negative weight
  std::vector<double> beta_g_, beta_h_;
};

}  // namespace dconnet
