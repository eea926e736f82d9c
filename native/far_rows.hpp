// The rows that are far from their kinks: their sums, and the check that they have kept their sides.
//
// About a centre w, rows are near if |z_j(w)| is small for |q_j|, and are copied to `NearRows`. As long as all others, the far
// rows, keep the side that they have at w, the active ones among them add
//
//   <sum_j (beta_g - beta_h)_j q_j, v> + a vᵀ (sum_j q_j q_jᵀ) v
//
// to the problem of the neuron, and nothing else is needed of them.
#pragma once

#include <cstddef>
#include <vector>

#include "neuron_rows.hpp"

namespace dconnet {

class FarRows {
 public:
  // Whether there are enough rows for near and far ones to be worth their cost.
  static bool pays_for(std::size_t rows, std::size_t columns);
  // The largest number of near rows.
  static std::size_t most_near_of(std::size_t rows);

  explicit FarRows(NeuronRows& passes);

  NeuronRows& passes() { return passes_; }
  std::size_t columns() const { return passes_.columns(); }
  std::size_t stride() const { return centre_.size(); }
  std::size_t most_near() const { return most_near_; }

  // Sums and maxima over all rows.
  struct Totals {
    double hinges, convex_hinges, largest, steepest;  // see `PassSum`
  };

  // Opens a neuron at v, and evaluates all rows there.
  Totals open(const double* alpha, const double* v, Split split, const double* kinks);
  // Evaluates all rows at v. Without `with_tangent`, the tangent stays that of the last call with it.
  Totals evaluate(const double* v, bool with_tangent);
  // The gradient of the concave part.
  const double* tangent() const { return tangent_.data(); }

  // Makes v the centre, and evaluates all rows there unless it was the last point where they were; returns how many rows are
  // near, which must be collected unless they are too many.
  std::size_t centre(const double* v);
  // How many far rows have changed sides since the centre before.
  std::size_t crossed() const { return crossed_; }
  // Returns how many far rows have changed sides at v, without a pass if none can have. They must be collected, or a new centre
  // be found.
  std::size_t recheck_far(const double* v);
  // Copies the rows that were counted last, and takes them out of the far sums.
  void collect(std::size_t count, const PackedRows& to);

  // Sums over the far active rows: q qᵀ, on and above the diagonal, beta_g q and beta_h q.
  const double* gram() const { return sums_.data(); }
  const double* slopes_g() const { return sums_.data() + stride() * stride(); }
  const double* slopes_h() const { return slopes_g() + stride(); }

 private:
  Totals merged_totals();
  double reach();
  void add_up(std::size_t active, std::size_t changed);
  void remember(const double* v);
  double* reference(std::size_t i) { return references_.data() + i * stride(); }

  NeuronRows& passes_;
  std::size_t most_near_;
  std::vector<double> centre_;
  std::vector<double> tangent_;
  std::vector<double> sums_;        // gram, slopes_g, slopes_h
  bool added_up_ = false;           // the sums are those of the open neuron
  std::size_t changes_ = 0;         // since the sums were computed from scratch
  std::size_t crossed_ = 0;
  double reach_ = 0.0;              // of the near rows about the centre
  std::vector<double> references_;  // (kReferences, stride)
  std::vector<double> distances_;
  std::size_t n_references_ = 0;
  LeafSums totals_, tangents_, counts_, rechecked_;
  std::vector<double> ratios_;
  std::vector<Row> list_;                                // active ones among the collected rows
  std::vector<double> minus_ones_, minus_g_, minus_h_;  // their weights
};

}  // namespace dconnet
