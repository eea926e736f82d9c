// The rows of a sweep: the outputs of the network for each of them, and the problem of one neuron. All passes are shared by a
// team of threads.
//
// The neuron's problem, with the other neurons fixed, is a sum over rows,
//
//   O(v) = sum_j (beta_g - beta_h)_j max(z_j, 0) + a sum_j max(z_j, 0)² + gamma |v|²,   z = Q v,
//
// with beta_g - beta_h = c, the slopes c_j = -2 sum_o alpha_lo r_jo for the residual r without the neuron, and the curvature
// a = |alpha_l|². The paper's split of c into beta_g and beta_h is made for each output by itself, and its parts are summed over
// the outputs; the net split is that of the sum.
//
// Rows keep, from pass to pass: the targets, the outputs of the network, the slopes of the open neuron, and
//  - z_j at a reference point, the last one at which the row was evaluated. References have numbers;
//  - whether the row is near its kink, so that `NearRows` has a copy, or far from it on either side.
// A far row cannot have changed sides at v unless |z_j| <= |q_j| |v - its reference|.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "rows.hpp"

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

// What a pass over all rows returns for each leaf: sums, and two maxima.
enum PassSum : std::size_t {
  kHinges,        // O without its penalty
  kConvexHinges,  // the same without beta_h
  kLargest,       // |z_j|
  kSteepest,      // slope
  kPassSums
};

// How many rows of a leaf are where.
enum Count : std::size_t {
  kNear,     // near its kink, to be collected
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

// Where a row is: near its kink, or far from it on either side.
enum class Place : unsigned char { kInactive, kActive, kNear };

class NeuronRows {
 public:
  // The number of references that rows can have.
  static constexpr std::size_t kReferences = 64;
  // One row in 16 is used to estimate how far rows are from their kinks.
  static constexpr std::size_t kRatioSpacing = 16, kRatios = kLeaf / kRatioSpacing;

  NeuronRows(const Design& design, std::size_t n_hidden, std::size_t n_outputs, Team& team);

  const Design& design() const { return rows_.design(); }
  std::size_t rows() const { return design().rows(); }
  std::size_t columns() const { return design().columns(); }
  std::size_t stride() const { return design().stride(); }
  std::size_t leaves() const { return rows_.leaves().count(); }
  Rows& all() { return rows_; }
  Team* team() { return &rows_.team(); }

  // The targets y (rows, n_outputs), copied.
  void set_targets(const double* y);
  // Allocates the memory for telling near rows from far ones.
  void allocate_near_and_far();

  // In what follows, arrays that are written to have a row for each leaf; alpha is that of the neuron (n_outputs). Vectors v are
  // padded, and so is `kinks`, the kink direction of this visit or null.

  // Sets the network: alpha (n_hidden, n_outputs), V (n_hidden, columns). Squared residuals (leaves, 1).
  void set_network(const double* alpha, const double* V, double* squares);
  // Takes the neuron with these weights out of the network, opens its problem, and evaluates all rows at v, reference 0 from
  // then on. Sums (leaves, kPassSums); unless that is null, the gradients of the concave part (leaves, stride). All rows are far
  // from then on.
  void open(const double* alpha, const double* v, Split split, const double* kinks, double* sums, double* tangents);
  // The same for `AllRows`, which evaluates the rows itself; returns the largest slope.
  double open(const double* alpha, const double* v, Split split, const double* kinks, LeafSums& buffer);
  // Evaluates all rows at v, reference 0 from then on. Sums and tangents likewise.
  void evaluate(const double* v, double* sums, double* tangents);
  // Puts the neuron back into the network, with the weights at which all rows were evaluated last.
  void close(const double* alpha);

  // |z_j| / |q_j| of every kRatioSpacing-th row (leaves, kRatios); -1 where there is none.
  void ratios(double* ratios);
  // At the point where all rows were evaluated last, those with |z_j| <= reach |q_j| become near, the others far. Counts (leaves, kCounts).
  void choose(double reach, double* counts);
  // Adds sums over the far active rows: the matrix of q qᵀ, on and above the diagonal, and beta_g q and beta_h q
  // (stride² + 2 stride). Unless `from_scratch`, the changes since the last sums.
  void add_far_sums(bool from_scratch, std::vector<double>& sums);
  // Evaluates those far rows at v, reference `number` from then on, that may have changed sides: |z_j| <= |q_j| times the
  // distance of v from their reference, distances[i] for the i-th. Counts (leaves, 1) those that are not on their side by
  // more than noise |q_j|.
  void recheck_far(const double* v, double noise, std::size_t number, const double* distances, double* counts);
  // Copies the rows that the last `choose` or `recheck_far` has counted; these are near from then on.
  void collect(const PackedRows& to);

  // The sums of `OriginTestByPasses`: the matrix of q qᵀ, on and above the diagonal, over the rows whose multipliers at x are
  // between their bounds; lambda q; and over the rows with q x > 0, beta_g q x and (q x)² (stride² + stride + 2).
  void zero_sums(const double* x, std::vector<double>& sums);

  // Slopes of the open neuron, and z of the rows where they were evaluated last.
  const double* beta_g() const { return beta_g_.data(); }
  const double* beta_h() const { return beta_h_.data(); }
  std::vector<double>& z() { return z_; }
  // |q_j|, and a little more than rounding; negative where a row at its kink is not active.
  const double* kink_norms() const { return kink_norms_.empty() ? norms_.data() : kink_norms_.data(); }
  double kink_noise(const double* v) const { return dconnet::kink_noise(v, columns(), !kink_norms_.empty()); }

 private:
  void open(const Leaf& leaf, const double* alpha, const double* v, Split split, const double* kinks);
  void add_outputs(const Leaf& leaf, const double* alpha, double sign);
  void split_slopes(const Leaf& leaf, const double* alpha, Split split);
  void evaluate_leaf(const Leaf& leaf, const double* v, double noise, double* sums, double* tangent);
  template <typename Body>
  void add_leaf_sums(std::vector<double>& sums, const Body& body);
  void measure_margins(const Leaf& leaf);
  std::size_t recheck(Row* list, std::size_t in_doubt, const double* v, double noise, std::size_t number);

  std::size_t n_hidden_, n_outputs_;
  Rows rows_;
  double curvature_ = 0.0;
  std::vector<double> V_;  // (n_hidden, stride)
  std::vector<double> targets_, positive_, negative_;  // (n_outputs, rows): y, and what neurons of either sign add up to
  std::vector<double> beta_g_, beta_h_, z_, norms_;  // rows
  std::vector<double> kink_norms_;                   // rows, or none without a kink direction
  std::vector<unsigned char> reference_;             // rows: at which z is known
  std::vector<float> margins_;                       // rows: how far each is from changing sides
  bool margins_are_known_ = false;                   // for z as it is
  std::vector<Place> places_;                        // rows
  std::vector<unsigned char> summed_;                // rows: which the last sums over far rows were made of
  std::vector<Row> list_;                            // rows: lists of some of them, leaf by leaf
  std::vector<std::size_t> listed_, offsets_;        // leaves: how long these are, and where their rows are handed over
  std::vector<double> parts_;                        // sums of some leaves
};

}  // namespace dconnet
