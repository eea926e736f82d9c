// All rows of a design, for passes that a team of threads shares: each leaf is done by one thread, and what the leaves
// add up to is merged in their order.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include "design.hpp"
#include "leaves.hpp"
#include "team.hpp"

namespace dconnet {

class Rows {
 public:
  Rows(const Design& design, Team& team)
      : design_(design), team_(team), leaves_{design.rows()}, products_(leaves_.count(), design.stride()) {}

  const Design& design() const { return design_; }
  Team& team() { return team_; }
  const Leaves& leaves() const { return leaves_; }

  // Calls body(leaf, index of it, thread) for all leaves, in any order.
  template <typename Body>
  void each(const Body& body) {
    team_.run(leaves_.count(), [&](std::size_t i, std::size_t thread) { body(leaves_[i], i, thread); });
  }

  // Adds what body(leaf, part) adds to a part that is zero to the total, over all leaves in their order. For sums that are
  // too long to be kept for each leaf: a thread waits until those before its own are added.
  template <typename Body>
  void add_in_order(std::size_t size, double* total, const Body& body) {
    parts_.resize(std::max(parts_.size(), (team_.size() + 1) * size));
    tree_.begin(size);
    std::atomic<std::size_t> turn{0};
    each([&](const Leaf& leaf, std::size_t i, std::size_t thread) {
      double* part = parts_.data() + thread * size;
      std::fill_n(part, size, 0.0);
      body(leaf, part);
      while (turn.load(std::memory_order_acquire) != i) std::this_thread::yield();
      tree_.add(i, part);
      turn.store(i + 1, std::memory_order_release);
    });
    double* sum = parts_.data() + team_.size() * size;
    tree_.total(sum);
    for (std::size_t k = 0; k < size; ++k) total[k] += sum[k];
  }

  // z = Q v
  void apply(const double* v, double* z) {
    each([&](const Leaf& leaf, std::size_t, std::size_t) { apply(leaf, v, z + leaf.first); });
  }
  // g = Qᵀ w
  void apply_transposed(const double* w, double* g) {
    each([&](const Leaf& leaf, std::size_t i, std::size_t) {
      multiply_transposed(design_.row(leaf.first), leaf.count, design_.stride(), w + leaf.first, products_.part(i));
    });
    products_.merge(g);
  }
  // The preactivations of the rows of one leaf.
  void apply(const Leaf& leaf, const double* v, double* z) const {
    multiply(design_.row(leaf.first), leaf.count, design_.stride(), v, z);
  }

 private:
  const Design& design_;
  Team& team_;
  Leaves leaves_;
  LeafSums products_;          // columns
  std::vector<double> parts_;  // of long sums, one a thread and their sum
  LeafTree tree_;              // of these
};

}  // namespace dconnet
