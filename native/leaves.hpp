// Rows in leaves of fixed size, over which sums are made leaf by leaf and merged in order: a result does not depend on
// how many threads, or workers of a cluster, share the leaves.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace dconnet {

// Large enough that merging costs nothing next to the work, small enough that ten thousand rows can be shared.
constexpr std::size_t kLeaf = 4096;

struct Leaf {
  std::size_t first, count;  // rows
  std::size_t end() const { return first + count; }
};

struct Leaves {
  std::size_t rows;

  std::size_t count() const { return (rows + kLeaf - 1) / kLeaf; }
  Leaf operator[](std::size_t i) const { return {i * kLeaf, std::min(kLeaf, rows - i * kLeaf)}; }
};

// Numbers for each leaf, and their sums.
class LeafSums {
 public:
  LeafSums(std::size_t leaves, std::size_t size) : size_(size), parts_(leaves * size) {}

  // The numbers of one leaf, all zero.
  double* clear(std::size_t leaf) {
    std::fill_n(part(leaf), size_, 0.0);
    return part(leaf);
  }
  double* part(std::size_t leaf) { return parts_.data() + leaf * size_; }

  // Writes the sums over all leaves, in their order.
  void merge(double* total) const {
    std::fill_n(total, size_, 0.0);
    for (std::size_t at = 0; at < parts_.size(); at += size_) {
      for (std::size_t i = 0; i < size_; ++i) total[i] += parts_[at + i];
    }
  }
  // The largest of one number over all leaves; if one is no number, that.
  double largest(std::size_t number) const {
    double most = parts_.empty() ? 0.0 : parts_[number];
    for (std::size_t at = number; at < parts_.size(); at += size_) {
      if (!(parts_[at] <= most) && most == most) most = parts_[at];
    }
    return most;
  }

 private:
  std::size_t size_;
  std::vector<double> parts_;
};

}  // namespace dconnet
