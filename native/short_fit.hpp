// Short fits: plain L-BFGS from a random or a given start on coded rows, capped by evaluations, in single precision.
//
// The problem is that of the whole package,
//
//   F(V, alpha) = sum_j s_j (y_j - sum_l alpha_l max(z_jl, 0))² + gamma (|V|² + |alpha|²),    z_l = M B v_l,
//
// where M are the columns that the codes stand for and B maps whitened weights to those of the columns: with B the
// inverse of R in M = Q R, z_l = Q v_l. M and Q are never formed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "coded_rows.hpp"
#include "coded_rows_pass.hpp"
#include "lbfgs.hpp"

namespace dconnet {

// A matrix in bands of a few rows. Of a band, only the columns between its first and last entry are stored.
class Banded {
 public:
  template <typename Entry>
  Banded(std::size_t rows, std::size_t columns, const Entry& entry);

  // C = A B, with rows of this width.
  void multiply(const float* B, std::size_t width, float* C) const;

 private:
  struct Band {
    std::size_t rows, first, count, at;  // in entries_: (count, kBlock)
  };
  std::vector<Band> bands_;
  Aligned<float> entries_;
};

// F as a function of V' (rank, width) and then alpha (width), where the width is the number of neurons, rounded up;
// those beyond are zero and stay it.
class CodedObjective : public SmoothOf<float> {
 public:
  // from_white is B, of shape (columns, rank).
  CodedObjective(const CodedRows& rows, const double* from_white, std::size_t rank, const double* weights,
                 std::size_t n_hidden);

  // Targets and strength of the penalty for the next evaluations.
  void pose(const double* y, double gamma);

  std::size_t rank() const { return rank_; }
  std::size_t n_hidden() const { return n_hidden_; }
  std::size_t n_rows() const { return rows_.rows; }
  const double* weights() const { return given_weights_; }
  std::size_t size() const override { return (rank_ + 1) * width_; }
  double gradient(const float* theta, float* gradient) override;

  // From and to V (n_hidden, rank) and alpha (n_hidden).
  void pack(const double* V, const double* alpha, float* theta) const;
  void unpack(const float* theta, double* V, double* alpha) const;
  // Output of the network for every row.
  void outputs(const double* V, const double* alpha, double* outputs);

 private:
  void sort_rows();
  void prepare(const float* theta);
  Tables<float> tables() const;
  double add_tile(std::size_t begin, std::size_t count, const float* alpha);
  void clear_gradients();
  void add_gradients();
  template <typename Real>
  void gather(const Real* level, const Real* slope, float* gradient);

  const CodedRows& rows_;
  const Codes codes_;
  const double* given_weights_;
  std::size_t rank_, n_hidden_, width_;
  Banded to_columns_, to_white_;          // B and its transpose, with the intercept as the first column
  std::vector<float> weights_, y_;        // (rows)
  std::vector<std::uint16_t> order_;      // of the rows of each tile, by the places of each coded feature
  double gamma_ = 0.0;
  Aligned<float> columns_;            // (columns, width): B V', the intercept first
  Aligned<float> level_, slope_;      // (places, width)
  // Gradients in the tables; one row more, for the intercept and for alpha. The sums over many tiles are double.
  Aligned<float> level_gradient_, slope_gradient_;
  std::vector<double> level_sum_, slope_sum_;
  std::size_t tile_rows_;
  Aligned<float> tile_, pull_;        // preactivations and their slopes, slopes in the outputs, of a tile of rows
  std::vector<double> above_;
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
