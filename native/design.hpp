// The design Q, orthonormal or a part of such a one, and the passes over it that the solvers are made of.
#pragma once

#include <cstddef>
#include <vector>

#include "dense.hpp"
#include "lanes.hpp"

namespace dconnet {

class Design {
 public:
  // Copies the rows of a C-contiguous matrix, each padded with zeros to a whole number of lanes.
  Design(const double* values, std::size_t rows, std::size_t columns);
  // A view of rows that are padded already, and must outlive it.
  static Design view(const double* padded, std::size_t rows, std::size_t columns);

  // Room for as many rows, to be filled by `extend`.
  static Design with_capacity(std::size_t rows, std::size_t columns);

  Design(Design&&) = default;
  Design(const Design&) = delete;
  Design& operator=(const Design&) = delete;

  // Has other rows from `first` on: the caller writes them, padded, to the address returned. Made with room for them.
  double* extend(std::size_t first, std::size_t count) {
    rows_ = first + count;
    return values_.data() + first * stride_;
  }

  std::size_t rows() const { return rows_; }
  std::size_t columns() const { return columns_; }
  // Length of a padded row; vectors of coefficients and gradients have this length, with zeros at the end.
  std::size_t stride() const { return stride_; }

  const double* row(std::size_t j) const { return data_ + j * stride_; }

  // |q_j|, and a little more than its rounding.
  double norm(std::size_t j) const { return (1.0 + 1e-9) * std::sqrt(dot(row(j), row(j), stride_)); }
  // z = Q v
  void apply(const double* v, double* z) const;
  // The same for the listed rows only; z has an entry for each of them.
  void apply_to_rows(const Row* rows, std::size_t count, const double* v, double* z) const;
  // g = Qᵀ w
  void apply_transposed(const double* w, double* g) const;
  // Adds weight q of the row q to g.
  void add_row(std::size_t row, double weight, double* g) const;
  // Adds the sum of weights[i] q q^T over the listed rows q to the upper triangle of G, of shape (stride, stride).
  void add_gram(const Row* rows, const double* weights, std::size_t count, double* G) const;

 private:
  Design(std::size_t rows, std::size_t columns);

  std::size_t rows_, columns_, stride_;
  std::vector<double> values_;  // empty in a view
  const double* data_ = nullptr;
};

}  // namespace dconnet
