// Passes over many rows of a design that a team of threads shares.
#pragma once

#include <algorithm>
#include <cstddef>

#include "design.hpp"
#include "leaves.hpp"
#include "team.hpp"

namespace dconnet {

// All rows, leaf by leaf: each leaf is done by one thread.
class Rows {
 public:
  Rows(const Design& design, Team& team) : design_(design), team_(team), leaves_{design.rows()} {}

  const Design& design() const { return design_; }
  Team& team() { return team_; }
  const Leaves& leaves() const { return leaves_; }

  // Calls body(leaf, index of it, thread) for all leaves, in any order.
  template <typename Body>
  void each(const Body& body) {
    team_.run(leaves_.count(), [&](std::size_t i, std::size_t thread) { body(leaves_[i], i, thread); });
  }

  // The preactivations of the rows of one leaf.
  void apply(const Leaf& leaf, const double* v, double* z) const {
    multiply(design_.row(leaf.first), leaf.count, design_.stride(), v, z);
  }

 private:
  const Design& design_;
  Team& team_;
  Leaves leaves_;
};

// Products of many rows with one vector. Each entry is computed by one thread, with the same bits as by a single thread.
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
