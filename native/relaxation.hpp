// Linear programmes with bounded variables and piecewise linear objectives, as branch and bound over signs needs them.
//
// Variables are `columns` free ones x, and `rows` that depend on them, G x + g. Every variable v_j has bounds and a
// concave objective with at most one kink, at zero: constant + left v for v < 0, constant + right v for v > 0. The sum
// of the objectives is maximised.
//
// The method is the dual simplex method on a dense tableau: with few columns, a pivot takes less than a microsecond.
// Since all variables are bounded, every basis is feasible for the dual, whatever bounds and objectives have changed
// since the last programme, so each one starts from the basis of the last. A step is an exact line search along an
// edge of the dual, and each dual point is a bound. `bound` computes it from the original rows, so that it holds
// whatever errors the tableau has gathered.
#pragma once

#include <cstddef>
#include <vector>

namespace dconnet {

class Relaxation {
 public:
  enum class End { optimal, infeasible, below_cutoff, stalled };

  Relaxation(const double* G, const double* g, std::size_t rows, std::size_t columns);

  std::size_t rows() const { return rows_; }
  std::size_t columns() const { return columns_; }
  std::size_t variables() const { return rows_ + columns_; }
  const double* row(std::size_t r) const { return &G_[r * columns_]; }
  double shift(std::size_t r) const { return g_[r]; }

  // By variable: first the columns, then the rows.
  std::vector<double> low, high, constant, left, right;

  // Maximise, or stop as soon as the maximum is known to be at most `cutoff`.
  End solve(double cutoff);

  // An upper bound by weak duality, from the multipliers of the last basis; sets `multiplier` and `conjugate`.
  double bound();

  // By variable, after `bound`: the bound is the sum of the conjugates, max over v_j of objective_j(v_j) - multiplier_j v_j,
  // and of the multipliers of the rows times their shifts.
  std::vector<double> multiplier, conjugate;

  // max of objective_j(v) - multiplier_j v for v between two ends, with the objective constant' + slope v.
  double conjugate_of(std::size_t j, double constant_term, double slope, double from, double to) const;

  // The columns of the last basic solution, within their bounds.
  void point(double* x) const;

 private:
  bool is_kinked(std::size_t j) const { return low[j] < 0.0 && high[j] > 0.0 && left[j] > right[j]; }
  double slope(std::size_t j) const { return low[j] >= 0.0 ? right[j] : left[j]; }
  double piece_low(std::size_t r) const;
  double piece_high(std::size_t r) const;
  void price();
  void place();
  double dual_value() const;
  std::size_t most_violated() const;
  bool step(std::size_t r);
  void pivot(std::size_t r, std::size_t k);
  void reset();
  void rebuild();
  End iterate(double cutoff);

  struct Break {
    double t, slope;
    std::size_t k;
    int side;
  };

  std::size_t rows_, columns_;
  std::vector<double> G_, g_, T_, t_;
  std::vector<std::size_t> basic_, nonbasic_;
  std::vector<int> side_;  // by variable: the piece that it was last on, if it is kinked
  std::vector<int> rest_;  // by variable: the end that it last rested at, -1 for low, 0 for the kink, 1 for high
  double zero_ = 0.0;      // reduced slopes up to here leave a variable where it rests
  std::vector<double> price_, d_, at_, value_;
  std::vector<Break> breaks_;
  std::size_t pivots_ = 0;
};

}  // namespace dconnet
