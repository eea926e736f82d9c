// All rows of a design, for passes that a team of threads shares: each leaf is done by one thread, and what the leaves
// add up to is merged in their order.
#pragma once

#include <cstddef>

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
  LeafSums products_;  // columns
};

}  // namespace dconnet
