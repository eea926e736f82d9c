// One sweep over the neurons: the DC subproblem of each, in the given order.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "neuron.hpp"

namespace dconnet {

class Sweep {
 public:
  Sweep(Design design, std::size_t n_hidden, std::size_t n_outputs, SharedTeam team = nullptr);
  Sweep(const double* design, std::size_t rows, std::size_t columns, std::size_t n_hidden, std::size_t n_outputs)
      : Sweep(Design(design, rows, columns), n_hidden, n_outputs) {}

  const Design& design() const { return design_; }
  std::size_t n_hidden() const { return rows_.n_hidden(); }
  std::size_t n_outputs() const { return rows_.n_outputs(); }

  // Improves the hidden weights V (n_hidden, columns) in place, for the targets y (rows, n_outputs) and the output
  // weights alpha (n_hidden, n_outputs). `proceed` is asked now and then; returns how many neurons are done. One sweep
  // leaves nothing to the next.
  std::size_t run(const double* y, const double* alpha, double gamma, const std::size_t* order, Split split,
                  const Limits& limits, const std::function<bool()>& proceed, double* V, Tally& tally);

 private:
  SharedTeam team_;
  Design design_;
  NeuronRows rows_;
  Neuron neuron_;
  std::vector<double> v_;  // columns
};

}  // namespace dconnet
