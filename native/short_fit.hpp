// Short fits: plain L-BFGS from a random or a given start on coded rows, capped by evaluations, in single precision.
//
// The problem is that of the whole package,
//
//   F(V, alpha) = sum_j s_j (y_j - sum_l alpha_l max(z_jl, 0))² + gamma (|V|² + |alpha|²),    z_l = M B v_l,
//
// where M are the columns that the codes stand for and B maps whitened weights to those of the columns: with B the
// inverse of R in M = Q R, z_l = Q v_l. M and Q are never formed: a row meets two rows of a table for each feature,
// however many columns the feature has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "coded_rows.hpp"
#include "layout.hpp"
#include "smooth.hpp"

namespace dconnet {

class CodedObjective : public Smooth {
 public:
  // from_white is B, of shape (columns, rank).
  CodedObjective(const CodedRows& rows, const double* from_white, std::size_t rank, const double* weights,
                 std::size_t n_hidden);

  // Targets of the next evaluations, which must outlive them, and the strength of their penalty.
  void pose(const double* y, double gamma);

  const Layout& layout() const { return layout_; }
  std::size_t n_rows() const { return rows_.rows; }
  const double* weights() const { return given_weights_; }
  std::size_t size() const override { return layout_.size(); }
  double gradient(const double* theta, double* gradient) override;
  // Output of the network for every row.
  void outputs(const double* theta, double* outputs);

 private:
  void tabulate(const double* theta);
  void gather(double* gradient);

  const CodedRows& rows_;
  const double* given_weights_;
  std::size_t rank_, width_;  // width of the tables: neurons, rounded up
  std::vector<float> from_white_;         // (columns, rank)
  std::vector<std::size_t> begins_;       // of the entries of a row of B that are not zero
  std::vector<float> weights_, y_;        // (rows)
  double gamma_ = 0.0;
  Layout layout_;
  std::vector<float> white_, alpha_;      // V' (rank, width), alpha (width)
  std::vector<float> columns_;            // (columns, width): B V'
  std::vector<float> level_, slope_;      // (places, width)
  std::vector<float> level_gradient_, slope_gradient_;
  std::vector<double> level_sum_, slope_sum_;
  std::vector<float> preactivations_, back_, residual_;  // of a tile of rows
  std::vector<double> above_;
  std::vector<std::size_t> first_place_, first_column_;
};

struct ShortFit {
  std::size_t evaluations;
  double value;
};

using Proceed = std::function<bool()>;

// Writes random weights V (n_hidden, rank) and alpha (n_hidden), balanced and scaled so that the output fits the targets.
void start_at_random(CodedObjective& objective, const double* y, std::uint64_t seed, double* V, double* alpha);

// Goes on from V and alpha for about this many evaluations, and writes there what was reached: never above the start.
ShortFit fit_shortly(CodedObjective& objective, const double* y, double gamma, std::size_t evaluations,
                     const Proceed& proceed, double* V, double* alpha);

}  // namespace dconnet
