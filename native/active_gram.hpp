// Q_Pᵀ Q_P of the rows P that are active, kept up to date row by row.
//
// From one Newton step to the next, and from one visit of a neuron to the next, few rows change sides: adding and
// removing those is much cheaper than a new product.
#pragma once

#include <cstddef>
#include <vector>

#include "design.hpp"

namespace dconnet {

class ActiveGram {
 public:
  explicit ActiveGram(const Design& design)
      : member_(design.rows(), 0), values_(design.stride() * design.stride(), 0.0) {}

  // A list of rows that come (weight one) or go (weight minus one), and a buffer: objects that never use it at the same time
  // share it, and it is lost with every call that takes it.
  struct Changes {
    explicit Changes(std::size_t rows) : rows(rows + 1), weights(rows + 1) {}
    std::vector<Row> rows;
    std::vector<double> weights;
  };

  // Removes all rows. Rows that are added later come on top of the given matrix, if there is one, which the caller keeps.
  void clear(const double* base = nullptr);

  // The matrix that the caller keeps has changed, from `before`.
  void base_changed(const double* before);

  // Brings the matrix to the rows j with wanted[j] != 0.
  void match(const Design& design, const unsigned char* wanted, Changes& changes);

  // Applies the first `count` changes.
  void change(const Design& design, Changes& changes, std::size_t count);

  // Upper triangle of shape (stride, stride).
  const double* values() const { return values_.data(); }

 private:
  void start_values();
  void recompute(const Design& design, Changes& changes);

  std::vector<unsigned char> member_;
  std::vector<double> values_;
  const double* base_ = nullptr;
  std::size_t active_ = 0;
  std::size_t changes_ = 0;  // since the last full product
};

}  // namespace dconnet
