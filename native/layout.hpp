// How the weights of a network lie in one vector: V transposed, of shape (stride, width), then alpha transposed, of
// shape (n_outputs, width).
//
// The neurons come last, so that four lanes hold four neurons; those beyond n_hidden are zero and stay it.
#pragma once

#include <cstddef>

#include "lanes.hpp"

namespace dconnet {

struct Layout {
  Layout(std::size_t columns, std::size_t n_hidden, std::size_t n_outputs)
      : columns(columns),
        stride(round_up_to_lanes(columns)),
        n_hidden(n_hidden),
        width(round_up_to_lanes(n_hidden)),
        n_outputs(n_outputs) {}

  std::size_t size() const { return (stride + n_outputs) * width; }
  double* alpha(double* theta) const { return theta + stride * width; }
  const double* alpha(const double* theta) const { return theta + stride * width; }

  // From and to V (n_hidden, columns) and alpha (n_hidden, n_outputs).
  void pack(const double* V, const double* alpha, double* theta) const;
  void unpack(const double* theta, double* V, double* alpha) const;

  // |v_l| and |alpha_l|
  double norm(const double* theta, std::size_t unit) const;
  double output_norm(const double* theta, std::size_t unit) const;
  // Multiplies v_l by one factor and alpha_l by the other.
  void scale(double* theta, std::size_t unit, double hidden, double output) const;
  // Puts a neuron of the given directions of v_l (columns) and alpha_l (n_outputs) there, with the weight shared out
  // evenly over both.
  void place(double* theta, std::size_t unit, const double* direction, const double* output, double weight) const;
  // Scales every neuron, v_l by s and alpha_l by 1/s, to where its penalty is least: |v_l| = |alpha_l|. The network
  // stays the same.
  void balance(double* theta) const;

  std::size_t columns, stride, n_hidden, width, n_outputs;
};

}  // namespace dconnet
