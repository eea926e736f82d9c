// One sweep over the neurons: the DC subproblem of each, in the given order.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "neuron.hpp"
#include "neuron_rows.hpp"

namespace dconnet {

class Sweep {
 public:
  Sweep(Design design, std::size_t n_hidden, std::size_t n_outputs, SharedTeam team = nullptr);
  Sweep(const double* design, std::size_t rows, std::size_t columns, std::size_t n_hidden, std::size_t n_outputs)
      : Sweep(Design(design, rows, columns), n_hidden, n_outputs) {}

  std::size_t rows() const { return rows_.rows(); }
  std::size_t columns() const { return rows_.columns(); }
  std::size_t n_hidden() const { return n_hidden_; }
  std::size_t n_outputs() const { return n_outputs_; }

  // Improves the hidden weights V (n_hidden, columns) in place, for the targets y (rows, n_outputs) and the output weights alpha
  // (n_hidden, n_outputs). `proceed` is asked now and then; returns how many neurons are done. One sweep leaves nothing to the
  // next. `kinks` (n_hidden, columns) are the kink directions of the neurons, or null.
  std::size_t run(const double* y, const double* alpha, double gamma, const std::size_t* order, Split split,
                  const Limits& limits, const std::function<bool()>& proceed, double* V, Tally& tally,
                  const double* kinks = nullptr);

 private:
  std::size_t n_hidden_, n_outputs_;
  SharedTeam team_;
  Design design_;
  NeuronRows rows_;
  Neuron neuron_;
  std::vector<double> v_, kinks_;  // columns
  LeafSums squares_;
};

}  // namespace dconnet
