#include "objective.hpp"

#include <algorithm>
#include <cmath>

#include "dispatch.hpp"

namespace dconnet {

namespace {

constexpr std::size_t kTile = 64;  // rows
constexpr std::size_t kBlock = 4;  // rows or columns that share the loads of a group of neurons

// Z = Q V' for a few rows and Groups times four neurons. The loops over them are unrolled, so that the sums stay in
// registers; the first column sets them, because clearing them would cost as much as a column.
template <std::size_t Rows, std::size_t Groups>
DCONNET_INLINE void forward_block(const double* Q, std::size_t columns, std::size_t stride, const double* V, std::size_t width, double* Z) {
  Lanes sum[Rows][Groups];
  Lanes v[Groups];
#pragma GCC unroll 8
  for (std::size_t g = 0; g < Groups; ++g) load(v[g], V + g * kLanes);
#pragma GCC unroll 8
  for (std::size_t i = 0; i < Rows; ++i) {
#pragma GCC unroll 8
    for (std::size_t g = 0; g < Groups; ++g) sum[i][g] = Q[i * stride] * v[g];
  }
  for (std::size_t k = 1; k < columns; ++k) {
#pragma GCC unroll 8
    for (std::size_t g = 0; g < Groups; ++g) load(v[g], V + k * width + g * kLanes);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < Rows; ++i) {
#pragma GCC unroll 8
      for (std::size_t g = 0; g < Groups; ++g) sum[i][g] += Q[i * stride + k] * v[g];
    }
  }
#pragma GCC unroll 8
  for (std::size_t i = 0; i < Rows; ++i) {
#pragma GCC unroll 8
    for (std::size_t g = 0; g < Groups; ++g) store(Z + i * width + g * kLanes, sum[i][g]);
  }
}

template <std::size_t Rows>
DCONNET_INLINE void forward_rows(const double* Q, std::size_t columns, std::size_t stride, const double* V, std::size_t width, double* Z) {
  std::size_t l = 0;
  for (; l + 2 * kLanes <= width; l += 2 * kLanes) forward_block<Rows, 2>(Q, columns, stride, V + l, width, Z + l);
  if (l < width) forward_block<Rows, 1>(Q, columns, stride, V + l, width, Z + l);
}

// Preactivations Z (rows, width) of all neurons.
DCONNET_INLINE void forward(const double* Q, std::size_t rows, std::size_t columns, std::size_t stride, const double* V, std::size_t width,
                            double* Z) {
  std::size_t j = 0;
  for (; j + kBlock <= rows; j += kBlock) forward_rows<kBlock>(Q + j * stride, columns, stride, V, width, Z + j * width);
  for (; j < rows; ++j) forward_rows<1>(Q + j * stride, columns, stride, V, width, Z + j * width);
}

// Adds Qᵀ C to G for four columns and Groups times four neurons.
template <std::size_t Groups>
DCONNET_INLINE void backward_block(const double* Q, std::size_t rows, std::size_t stride, const double* C,
                                   std::size_t width, double* G) {
  Lanes sum[kBlock][Groups];
#pragma GCC unroll 8
  for (std::size_t k = 0; k < kBlock; ++k) {
#pragma GCC unroll 8
    for (std::size_t g = 0; g < Groups; ++g) load(sum[k][g], G + k * width + g * kLanes);
  }
  for (std::size_t j = 0; j < rows; ++j) {
    Lanes c[Groups];
#pragma GCC unroll 8
    for (std::size_t g = 0; g < Groups; ++g) load(c[g], C + j * width + g * kLanes);
#pragma GCC unroll 8
    for (std::size_t k = 0; k < kBlock; ++k) {
#pragma GCC unroll 8
      for (std::size_t g = 0; g < Groups; ++g) sum[k][g] += Q[j * stride + k] * c[g];
    }
  }
#pragma GCC unroll 8
  for (std::size_t k = 0; k < kBlock; ++k) {
#pragma GCC unroll 8
    for (std::size_t g = 0; g < Groups; ++g) store(G + k * width + g * kLanes, sum[k][g]);
  }
}

DCONNET_INLINE void backward(const double* Q, std::size_t rows, std::size_t stride, const double* C, std::size_t width,
                             double* G) {
  for (std::size_t k = 0; k < stride; k += kBlock) {
    std::size_t l = 0;
    for (; l + 2 * kLanes <= width; l += 2 * kLanes) {
      backward_block<2>(Q + k, rows, stride, C + l, width, G + k * width + l);
    }
    if (l < width) backward_block<1>(Q + k, rows, stride, C + l, width, G + k * width + l);
  }
}

DCONNET_INLINE void positive_part(Lanes& part, const Lanes& z) { part = z > 0.0 ? z : Lanes{}; }

// Residual of each row, from its preactivations; returns the sum of their squares.
DCONNET_INLINE double residuals(const double* Z, const double* y, const double* alpha, std::size_t rows,
                                std::size_t width, double* residual) {
  double squares = 0.0;
  for (std::size_t j = 0; j < rows; ++j) {
    Lanes sum = {};
    for (std::size_t l = 0; l < width; l += kLanes) {
      Lanes z, a;
      load(z, Z + j * width + l);
      load(a, alpha + l);
      positive_part(z, z);
      sum += a * z;
    }
    residual[j] = y[j] - ((sum[0] + sum[1]) + (sum[2] + sum[3]));
    squares += residual[j] * residual[j];
  }
  return squares;
}

// Slopes of F in the preactivations, and what the rows add to its gradient in alpha.
DCONNET_INLINE void slopes(const double* Z, const double* residual, const double* alpha, std::size_t rows,
                           std::size_t width, double* C, double* alpha_gradient) {
  for (std::size_t l = 0; l < width; l += kLanes) {
    Lanes a, sum;
    load(a, alpha + l);
    load(sum, alpha_gradient + l);
    for (std::size_t j = 0; j < rows; ++j) {
      Lanes z;
      load(z, Z + j * width + l);
      const double pull = -2.0 * residual[j];
      const Lanes slope = pull * a;
      store(C + j * width + l, z > 0.0 ? slope : Lanes{});
      positive_part(z, z);
      sum += pull * z;
    }
    store(alpha_gradient + l, sum);
  }
}

}  // namespace

Objective::Objective(const Design& design, const double* y, double gamma, std::size_t n_hidden)
    : design_(design),
      y_(y),
      gamma_(gamma),
      layout_(design.columns(), n_hidden),
      outputs_(kTile * layout_.width),
      back_(kTile * layout_.width),
      residual_(kTile),
      moments_(layout_.width),
      unit_(layout_.width),
      weights_(kTile, 1.0),
      rows_(kTile) {
  for (std::size_t j = 0; j < kTile; ++j) rows_[j] = static_cast<Row>(j);
}

double Objective::penalty(const double* theta) const { return gamma_ * dot(theta, theta, layout_.size()); }

double Objective::gradient(const double* theta, double* gradient) {
  const std::size_t rows = design_.rows(), stride = layout_.stride, width = layout_.width;
  const double* alpha = layout_.alpha(theta);
  double squares = 0.0;
  std::fill(gradient, gradient + layout_.size(), 0.0);
  for (std::size_t first = 0; first < rows; first += kTile) {
    const std::size_t count = std::min(kTile, rows - first);
    const double* Q = design_.row(first);
    fastest<forward>(Q, count, layout_.columns, stride, theta, width, outputs_.data());
    squares += fastest<residuals>(outputs_.data(), y_ + first, alpha, count, width, residual_.data());
    fastest<slopes>(outputs_.data(), residual_.data(), alpha, count, width, back_.data(), layout_.alpha(gradient));
    fastest<backward>(Q, count, stride, back_.data(), width, gradient);
  }
  for (std::size_t i = 0; i < layout_.size(); ++i) gradient[i] += 2.0 * gamma_ * theta[i];
  return squares + penalty(theta);
}

double Objective::value(const double* theta, double* residual) {
  const std::size_t rows = design_.rows(), stride = layout_.stride, width = layout_.width;
  double squares = 0.0;
  for (std::size_t first = 0; first < rows; first += kTile) {
    const std::size_t count = std::min(kTile, rows - first);
    fastest<forward>(design_.row(first), count, layout_.columns, stride, theta, width, outputs_.data());
    squares += fastest<residuals>(outputs_.data(), y_ + first, layout_.alpha(theta), count, width, residual_.data());
    if (residual) std::copy(residual_.begin(), residual_.begin() + static_cast<std::ptrdiff_t>(count), residual + first);
  }
  return squares + penalty(theta);
}

// Cholesky factor of the outputs' Gram matrix plus gamma, and their products with y.
bool Objective::factorise_outputs(const double* theta) {
  const std::size_t rows = design_.rows(), stride = layout_.stride, width = layout_.width;
  gram_.assign(layout_.width * layout_.width, 0.0);  // made only if somebody asks: there may be thousands of neurons
  std::fill(moments_.begin(), moments_.end(), 0.0);
  for (std::size_t first = 0; first < rows; first += kTile) {
    const std::size_t count = std::min(kTile, rows - first);
    fastest<forward>(design_.row(first), count, layout_.columns, stride, theta, width, outputs_.data());
    for (std::size_t i = 0; i < count * width; ++i) outputs_[i] = std::max(outputs_[i], 0.0);
    const Design tile = Design::view(outputs_.data(), count, layout_.n_hidden);
    tile.add_gram(rows_.data(), weights_.data(), count, gram_.data());
    for (std::size_t j = 0; j < count; ++j) tile.add_row(j, y_[first + j], moments_.data());
  }
  for (std::size_t l = 0; l < layout_.n_hidden; ++l) gram_[l * width + l] += gamma_;
  return cholesky(gram_.data(), layout_.n_hidden, width);
}

void Objective::solve_output_weights(double* theta) {
  if (!factorise_outputs(theta)) return;
  cholesky_solve(gram_.data(), layout_.n_hidden, layout_.width, moments_.data());
  std::copy(moments_.begin(), moments_.begin() + static_cast<std::ptrdiff_t>(layout_.n_hidden), layout_.alpha(theta));
}

// Without variable l a ridge regression with the matrix A = L L' is worse by alpha_l² / (A^-1)_ll; its hidden weights
// are no longer paid for.
void Objective::removal_costs(const double* theta, double* costs) {
  if (!factorise_outputs(theta)) return std::fill(costs, costs + layout_.n_hidden, 0.0);
  cholesky_solve(gram_.data(), layout_.n_hidden, layout_.width, moments_.data());
  for (std::size_t l = 0; l < layout_.n_hidden; ++l) {
    std::fill(unit_.begin(), unit_.end(), 0.0);
    unit_[l] = 1.0;
    cholesky_half_solve(gram_.data(), layout_.n_hidden, layout_.width, unit_.data());
    const double inverse = dot(unit_.data(), unit_.data(), layout_.n_hidden);
    const double hidden = layout_.norm(theta, l);
    costs[l] = moments_[l] * moments_[l] / inverse - gamma_ * hidden * hidden;
  }
}

}  // namespace dconnet
