// Products of many rows with one vector that a team of threads shares: each entry is that of one thread, to the bit.
#pragma once

#include <algorithm>
#include <cstddef>

#include "design.hpp"
#include "team.hpp"

namespace dconnet {

class SharedProducts {
 public:
  // Without a team the calling thread is alone.
  explicit SharedProducts(Team* team) : team_(team) {}

  // z = Q v
  void apply(const Design& design, const double* v, double* z) const {
    in_chunks(design.rows(), design.stride(), [&](std::size_t first, std::size_t count) {
      multiply(design.row(first), count, design.stride(), v, z + first);
    });
  }
  // The same for the listed rows only; z has an entry for each of them.
  void apply_to_rows(const Design& design, const Row* rows, std::size_t count, const double* v, double* z) const {
    in_chunks(count, design.stride(), [&](std::size_t first, std::size_t length) {
      design.apply_to_rows(rows + first, length, v, z + first);
    });
  }

 private:
  // As many numbers take about as long as it takes to wake up the others.
  static constexpr std::size_t kChunk = std::size_t{1} << 16;

  template <typename Body>
  void in_chunks(std::size_t rows, std::size_t stride, const Body& body) const {
    if (team_ == nullptr || team_->size() == 1 || rows * stride < 2 * kChunk) return body(0, rows);
    const std::size_t chunks = std::min(2 * team_->size(), rows * stride / kChunk);
    const std::size_t length = ((rows + chunks - 1) / chunks + 3) / 4 * 4;  // products are made of four rows at once
    team_->run((rows + length - 1) / length, [&](std::size_t i, std::size_t) {
      body(i * length, std::min(length, rows - i * length));
    });
  }

  Team* team_;
};

}  // namespace dconnet
