// The interface between a sweep and the rows of the data, which may be in other processes: passes that return a few numbers for
// each leaf, and copies of the rows that are needed one by one.
//
// The driver of a sweep (`NearMajoriser` with `FarRows` and `NearRows`) uses rows through this class alone. It merges the numbers
// of the leaves in their order, so that the bits are the same whether one object has all leaves (`NeuronRows`, whose threads
// share them) or several processes have a run of whole leaves each (`RemoteRows`, for the workers of a cluster).
//
// The neuron's problem, with the other neurons fixed, is a sum over rows,
//
//   O(v) = sum_j (beta_g - beta_h)_j max(z_j, 0) + a sum_j max(z_j, 0)² + gamma |v|²,   z = Q v.
//
// Rows keep, from pass to pass: the targets, the outputs of the network, the slopes of the open neuron, and
//  - z_j at a reference point, the last one at which the row was evaluated. References have numbers;
//  - whether the row is near its kink, so that the driver has a copy, or far from it on either side.
// A far row cannot have changed sides at v unless |z_j| <= |q_j| |v - its reference|.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "design.hpp"
#include "leaves.hpp"
#include "team.hpp"

namespace dconnet {

enum class Split { kPaper, kNet };

// A row whose z_j is within this share of |v| |q_j| is at its kink: solvers return such rows as tiny numbers of either sign.
// There, every vertex of the subdifferential of h is a valid tangent. Without a kink direction d, rows at their kinks are
// active, as the Heaviside function of the paper is one at zero; with d, they are active where q_j d > 0, as if the weights
// had moved by a little in this direction.
inline constexpr double kNeuronKinkTolerance = 1e-9;
// With a kink direction, rows at zero weights are at their kinks by this much.
inline constexpr double kLeastKinkNoise = 1e-280;
// Return the largest z_j / |q_j| of rows that are at their kinks at v.
inline double kink_noise(const double* v, std::size_t columns, bool has_direction) {
  const double noise = kNeuronKinkTolerance * std::sqrt(dot(v, v, columns));
  return has_direction ? std::max(noise, kLeastKinkNoise) : noise;
}

// What a pass over all rows returns: sums, and two maxima.
enum PassSum : std::size_t {
  kHinges,        // O without its penalty
  kConvexHinges,  // the same without beta_h
  kLargest,       // |z_j|
  kSteepest,      // slope
  kPassSums
};

// How many rows of a leaf are where.
enum Count : std::size_t {
  kNear,     // near its kink, to be copied to the driver
  kActive,   // far and active
  kChanged,  // others than those that the last sums over far rows were made of
  kCrossed,  // far, on another side than before, when it was no near one either
  kCounts
};

// Buffers for copies of rows, in their order.
struct PackedRows {
  double* q;  // (rows, stride), padded
  double *beta_g, *beta_h, *z;
  unsigned char* active;  // whether the row was far and active
};

// All rows at once, for programmes that need a walk over all of them.
struct WholeRows {
  const Design* design;
  const double* beta_g;
};

// The number of sampled rows among the first `rows` ones: those whose numbers are multiples of `spacing`.
inline std::size_t sampled_rows(std::size_t rows, std::size_t spacing) { return (rows + spacing - 1) / spacing; }

class LeafPasses {
 public:
  // The number of references that rows can have.
  static constexpr std::size_t kReferences = 64;
  // One row in 16 is used to estimate how far rows are from their kinks.
  static constexpr std::size_t kRatioSpacing = 16, kRatios = kLeaf / kRatioSpacing;
  // How many leaves to ask at once for this many numbers each: at least two, and at most 32 MiB of numbers.
  static std::size_t leaves_at_once(std::size_t numbers) {
    constexpr std::size_t kMostNumbers = std::size_t{1} << 22;
    return std::max<std::size_t>(2, kMostNumbers / numbers);
  }

  virtual ~LeafPasses() = default;

  virtual std::size_t rows() const = 0;
  virtual std::size_t columns() const = 0;
  std::size_t stride() const { return round_up_to_lanes(columns()); }
  virtual std::size_t leaves() const { return Leaves{rows()}.count(); }
  // The number of rows whose numbers are multiples of `spacing`.
  virtual std::size_t sampled(std::size_t spacing) const { return sampled_rows(rows(), spacing); }

  // In what follows, arrays that are written to have a row for each leaf; alpha is that of the neuron (n_outputs).

  // Sets the network: alpha (n_hidden, n_outputs), V (n_hidden, columns). Squared residuals (leaves, 1).
  virtual void set_network(const double* alpha, const double* V, double* squares) = 0;
  // Takes the neuron with these weights out of the network, opens its problem, and evaluates all rows at v, reference 0 from
  // then on. Sums (leaves, kPassSums); unless that is null, the gradients of the concave and of the convex
  // part, without the penalty (leaves, 2 stride). All rows are far from then on. Vectors v are padded, and so is `kinks`, the
  // kink direction of this visit or null.
  virtual void open(const double* alpha, const double* v, Split split, const double* kinks, double* sums,
                    double* gradients) = 0;
  // Evaluates all rows at v, reference 0 from then on. Sums and gradients likewise.
  virtual void evaluate(const double* v, double* sums, double* gradients) = 0;
  // Puts the neuron back into the network, with the weights at which all rows were evaluated last.
  virtual void close(const double* alpha) = 0;

  // |z_j| / |q_j| of every kRatioSpacing-th row (leaves, kRatios); -1 where there is none.
  virtual void ratios(double* ratios) = 0;
  // At the point where all rows were evaluated last, those with |z_j| <= reach |q_j| become near, the others far. Counts (leaves, kCounts).
  virtual void choose(double reach, double* counts) = 0;
  // Sums over the far active rows of the leaves from `first` to `last` (exclusively): the matrix of q qᵀ, on and above the
  // diagonal, and beta_g q and beta_h q (last - first, stride² + 2 stride). Unless `from_scratch`, the changes since the last sums.
  virtual void far_sums(bool from_scratch, std::size_t first, std::size_t last, double* sums) = 0;
  // Evaluates those far rows at v, reference `number` from then on, that may have changed sides: |z_j| <= |q_j| times the
  // distance of v from their reference, distances[i] for the i-th. Counts (leaves, 1) those that are not on their side by
  // more than noise |q_j|.
  virtual void recheck_far(const double* v, double noise, std::size_t number, const double* distances, double* counts) = 0;
  // Copies the rows that the last `choose` or `recheck_far` has counted; these are near from then on.
  virtual void collect(const PackedRows& to) = 0;

  // The sums of `OriginTestByPasses`, for the leaves from `first` to `last` (exclusively), zero_size() numbers for
  // each: the matrix of q qᵀ, on and above the diagonal, over the rows whose multipliers at x are between their bounds;
  // lambda q; and over the rows with q x > 0, beta_g q x and (q x)².
  virtual void zero_sums(const double* x, std::size_t first, std::size_t last, double* sums) = 0;
  std::size_t zero_size() const { return stride() * stride() + stride() + 2; }

  // Every `spacing`-th row, a power of two, one after the other: padded, and their slopes.
  virtual void sample_rows(std::size_t spacing, double* q) = 0;
  virtual void sample_slopes(std::size_t spacing, double* beta_g) = 0;

  // The threads of the rows, which the driver may use as well; null if there are none.
  virtual Team* team() { return nullptr; }
  // All rows, and the slopes of the open neuron; only if `may_be_whole`.
  virtual WholeRows whole() = 0;
  virtual bool may_be_whole() const { return true; }
};

// Adds the numbers of all leaves, sums.size() for each, to the sums. fetch(first, last) writes those of some leaves to `parts`,
// which grows to the number of leaves that are asked at once.
template <typename Fetch>
void add_leaf_sums(const LeafPasses& passes, std::vector<double>& parts, std::vector<double>& sums, const Fetch& fetch) {
  const std::size_t size = sums.size(), at_once = std::min(passes.leaves(), LeafPasses::leaves_at_once(size));
  parts.resize(std::max(parts.size(), at_once * size));
  for (std::size_t first = 0; first < passes.leaves(); first += at_once) {
    const std::size_t last = std::min(first + at_once, passes.leaves());
    fetch(first, last);
    for (std::size_t i = 0; i < last - first; ++i) {
      for (std::size_t k = 0; k < size; ++k) sums[k] += parts[i * size + k];
    }
  }
}

}  // namespace dconnet
