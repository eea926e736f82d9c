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

  // Room for the rows that change; shared by all instances that are matched one after the other.
  struct Room {
    explicit Room(std::size_t rows) : rows(rows + 1), weights(rows + 1) {}
    std::vector<std::size_t> rows;
    std::vector<double> weights;
  };

  static constexpr std::size_t kRecomputed = static_cast<std::size_t>(-1);

  // Brings the matrix to the rows j with wanted[j] != 0. Returns how many rows changed, which are then listed in
  // `room` with weight one if they came and minus one if they went, or kRecomputed.
  std::size_t match(const Design& design, const unsigned char* wanted, Room& room);

  // Upper triangle of shape (stride, stride).
  const double* values() const { return values_.data(); }

 private:
  void recompute(const Design& design, Room& room);

  std::vector<unsigned char> member_;
  std::vector<double> values_;
  std::size_t changes_ = 0;  // since the last full product
};

}  // namespace dconnet
