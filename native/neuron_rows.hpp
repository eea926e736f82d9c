// The rows of this process: the outputs of the network for each of them, and the problem of one neuron. All passes are shared by
// a team of threads.
//
// With several outputs, the problem of a neuron (see `LeafPasses`) has the slopes c_j = -2 sum_o alpha_lo r_jo, for the
// residual r without the neuron, and the curvature a = |alpha_l|². The paper's split of c into beta_g and beta_h is made for
// each output by itself, and its parts are summed over the outputs; the net split is that of the sum.
#pragma once

#include <cstddef>
#include <vector>

#include "leaf_passes.hpp"
#include "rows.hpp"

namespace dconnet {

// Where a row is: near its kink, or far from it on either side.
enum class Place : unsigned char { kInactive, kActive, kNear };

class NeuronRows : public LeafPasses {
 public:
  // `first_row` is the number of its first row among those of all processes.
  NeuronRows(const Design& design, std::size_t n_hidden, std::size_t n_outputs, Team& team, std::size_t first_row = 0);

  const Design& design() const { return rows_.design(); }
  std::size_t n_hidden() const { return n_hidden_; }
  std::size_t n_outputs() const { return n_outputs_; }
  Rows& all() { return rows_; }

  // The targets y (rows, n_outputs), copied.
  void set_targets(const double* y);

  // Allocates the memory for telling near rows from far ones.
  void allocate_near_and_far();

  std::size_t rows() const override { return design().rows(); }
  std::size_t sampled(std::size_t spacing) const override {
    return sampled_rows(first_row_ + rows(), spacing) - sampled_rows(first_row_, spacing);
  }
  std::size_t columns() const override { return design().columns(); }
  void set_network(const double* alpha, const double* V, double* squares) override;
  void open(const double* alpha, const double* v, Split split, const double* kinks, double* sums,
            double* gradients) override;
  void evaluate(const double* v, double* sums, double* gradients) override;
  void close(const double* alpha) override;
  void ratios(double* ratios) override;
  void choose(double reach, double* counts) override;
  void far_sums(bool from_scratch, std::size_t first, std::size_t last, double* sums) override;
  void recheck_far(const double* v, double noise, std::size_t number, const double* distances, double* counts) override;
  void collect(const PackedRows& to) override;
  void zero_sums(const double* x, std::size_t first, std::size_t last, double* sums) override;
  void sample_rows(std::size_t spacing, double* q) override;
  void sample_slopes(std::size_t spacing, double* beta_g) override;
  Team* team() override { return &rows_.team(); }
  WholeRows whole() override { return {&design(), beta_g_.data()}; }

  // How many rows the last `choose` or `recheck_far` has listed.
  std::size_t listed() const;
  // The two halves of `collect`: copies these rows, and makes them near rows.
  void copy_listed(const PackedRows& to);
  void take_listed();
  // For `AllRows`, which walks over all rows itself. Opens a neuron and returns its largest slope.
  double open(const double* alpha, const double* v, Split split, const double* kinks, LeafSums& buffer);
  const double* beta_g() const { return beta_g_.data(); }
  const double* beta_h() const { return beta_h_.data(); }
  // |q_j|, and a little more than rounding; negative where a row at its kink is not active.
  const double* kink_norms() const { return kink_norms_.empty() ? norms_.data() : kink_norms_.data(); }
  double kink_noise(const double* v) const { return dconnet::kink_noise(v, columns(), !kink_norms_.empty()); }
  std::vector<double>& z() { return z_; }

 private:
  void open(const Leaf& leaf, const double* alpha, const double* v, Split split, const double* kinks);
  void take_direction(const double* kinks);
  void add_outputs(const Leaf& leaf, const double* alpha, double sign);
  void split_slopes(const Leaf& leaf, const double* alpha, Split split);
  void evaluate_leaf(const Leaf& leaf, const double* v, double noise, double* sums, double* gradients);
  void add_to_zero_sums(const Leaf& leaf, const double* x, double* sums) const;
  void measure_margins(const Leaf& leaf);
  std::size_t recheck(Row* list, std::size_t in_doubt, const double* v, double noise, std::size_t number);

  // The first row of a sample among those from this one on.
  std::size_t next_sampled(std::size_t row, std::size_t spacing) const {
    return sampled_rows(first_row_ + row, spacing) * spacing - first_row_;
  }

  std::size_t n_hidden_, n_outputs_, first_row_;
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
};

}  // namespace dconnet
