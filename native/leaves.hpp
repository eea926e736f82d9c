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

// Sums over leaves, made two by two: of leaves 2i and 2i + 1, then of such pairs, and so on. A block of 2^k leaves that
// begins at a multiple of 2^k so has a sum that does not depend on the other leaves: processes that hold some of the leaves send
// the sums of their largest blocks, and the total is the same to the last bit.
class LeafTree {
 public:
  struct Block {
    std::size_t first, level;  // 2^level leaves from the first one on
  };

  // Allocates the memory for the sum over this many leaves.
  void reserve(std::size_t leaves, std::size_t size) {
    std::size_t levels = 1;
    while (leaves >> levels) ++levels;
    waits_.reserve(levels);
    sums_.resize(std::max(sums_.size(), levels * size));
    carry_.reserve(size);
  }
  // Starts with no leaf, and `size` numbers for each leaf to come.
  void begin(std::size_t size) {
    size_ = size;
    waits_.clear();
    blocks_.clear();
    values_.clear();
  }

  // Adds the numbers of the next leaf.
  void add(std::size_t leaf, const double* part) {
    carry_.assign(part, part + size_);
    std::size_t first = leaf, level = 0;
    for (; (leaf >> level) & 1; ++level) {
      if (level >= waits_.size() || waits_[level] == kNone) {  // the leaves to the left are elsewhere
        return append({first, level}, carry_.data());
      }
      const double* left = sums(level);
      for (std::size_t i = 0; i < size_; ++i) carry_[i] = left[i] + carry_[i];
      first = waits_[level];
      waits_[level] = kNone;
    }
    if (level >= waits_.size()) {
      waits_.resize(level + 1, kNone);
      sums_.resize(std::max(sums_.size(), waits_.size() * size_));
    }
    waits_[level] = first;
    std::copy(carry_.begin(), carry_.end(), sums(level));
  }

  // Writes the sum over all leaves, the first of which is that of number zero.
  void total(double* total) const {
    std::fill_n(total, size_, 0.0);
    bool is_last = true;
    for (std::size_t level = 0; level < waits_.size(); ++level) {
      if (waits_[level] == kNone) continue;
      const double* left = sums_.data() + level * size_;
      for (std::size_t i = 0; i < size_; ++i) total[i] = is_last ? left[i] : left[i] + total[i];
      is_last = false;
    }
  }

  // Ends with the largest blocks of the leaves that were added, in their order, and their sums one after the other.
  void end() {
    for (std::size_t level = waits_.size(); level-- > 0;) {
      if (waits_[level] != kNone) append({waits_[level], level}, sums(level));
    }
  }
  const std::vector<Block>& blocks() const { return blocks_; }
  const std::vector<double>& values() const { return values_; }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  double* sums(std::size_t level) { return sums_.data() + level * size_; }
  void append(Block block, const double* values) {
    blocks_.push_back(block);
    values_.insert(values_.end(), values, values + size_);
  }

  std::size_t size_ = 0;
  std::vector<std::size_t> waits_;  // for each level, where a block begins that waits for the one to its right
  std::vector<double> sums_, carry_, values_;
  std::vector<Block> blocks_;
};

// Numbers for each leaf, and their sums.
class LeafSums {
 public:
  LeafSums(std::size_t leaves, std::size_t size) : size_(size), parts_(leaves * size) {
    if (leaves > 1) tree_.reserve(leaves, size);
  }

  std::size_t size() const { return size_; }
  // The numbers of one leaf, all zero.
  double* clear(std::size_t leaf) {
    std::fill_n(part(leaf), size_, 0.0);
    return part(leaf);
  }
  double* part(std::size_t leaf) { return parts_.data() + leaf * size_; }

  // Writes the sums over all leaves, in their order.
  void merge(double* total) {
    if (parts_.size() == size_) std::copy(parts_.begin(), parts_.end(), total);
    else grow(0).total(total);
  }
  // The sums over the largest blocks of leaves, the first of which has this number.
  const LeafTree& blocks(std::size_t first) {
    grow(first).end();
    return tree_;
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
  LeafTree& grow(std::size_t first) {
    tree_.begin(size_);
    for (std::size_t at = 0, leaf = first; at < parts_.size(); at += size_, ++leaf) tree_.add(leaf, parts_.data() + at);
    return tree_;
  }

  std::size_t size_;
  std::vector<double> parts_;
  LeafTree tree_;
};

}  // namespace dconnet
