#include "origin.hpp"

#include <algorithm>
#include <cmath>

#include "lanes.hpp"

namespace dconnet {

namespace {

// Beyond a projection: if the multipliers have some room, the iteration then ends after finitely many rounds.
constexpr double kRelaxation = 1.5;
// What is left of Qᵀ lambda = t, as a fraction of t, that is rounding.
constexpr double kRounding = 1e-14;
// A falling slope this small, as a fraction of its terms, may be rounding.
constexpr double kFlat = 1e-10;

// Moves the multipliers along the direction and back into their bounds.
DCONNET_CLONES void project(std::size_t rows, double step, const double* along, const double* slope,
                            double* multipliers) {
  for (std::size_t j = 0; j < rows; ++j) {
    const double moved = multipliers[j] + step * along[j];
    const double positive = moved > 0.0 ? moved : 0.0;
    multipliers[j] = positive < slope[j] ? positive : slope[j];
  }
}

// Sums of the slopes and of the squares over the rows that a direction moves beyond their kinks.
struct Rise {
  double slope, square;
};

DCONNET_CLONES void add_rise(std::size_t rows, const double* along, const double* slope, Rise& rise) {
  double slopes[kLanes] = {}, squares[kLanes] = {};
  std::size_t j = 0;
  for (; j + kLanes <= rows; j += kLanes) {
    for (std::size_t i = 0; i < kLanes; ++i) {
      const double beyond = along[j + i] > 0.0 ? along[j + i] : 0.0;
      slopes[i] += slope[j + i] * beyond;
      squares[i] += beyond * beyond;
    }
  }
  for (; j < rows; ++j) {
    const double beyond = along[j] > 0.0 ? along[j] : 0.0;
    slopes[0] += slope[j] * beyond;
    squares[0] += beyond * beyond;
  }
  rise = {(slopes[0] + slopes[1]) + (slopes[2] + slopes[3]), (squares[0] + squares[1]) + (squares[2] + squares[3])};
}

}  // namespace

Origin::Origin(const Design& design) : design_(design), defect_(design.stride()) {}

Origin::Verdict Origin::examine(const Programme& programme, std::size_t max_rounds, double* v, double* z,
                                double* multipliers, std::size_t& rounds) {
  const std::size_t rows = design_.rows(), columns = design_.columns();
  if (max_abs(multipliers, rows) == 0.0) {
    guess(programme, z, multipliers);
  } else {
    project(rows, 0.0, multipliers, programme.slope, multipliers);
  }
  const double pull = max_abs(programme.linear, columns);
  for (std::size_t round = 0; round < max_rounds; ++round) {
    ++rounds;
    design_.apply_transposed(multipliers, defect_.data());
    for (std::size_t k = 0; k < columns; ++k) defect_[k] = programme.linear[k] - defect_[k];
    if (max_abs(defect_.data(), columns) <= kRounding * pull) {
      std::fill(v, v + columns, 0.0);
      std::fill(z, z + rows, 0.0);
      return Verdict::kSolution;
    }
    design_.apply(defect_.data(), z);
    Rise rise;
    add_rise(rows, z, programme.slope, rise);
    const double gain = dot(programme.linear, defect_.data(), columns);
    if (gain - rise.slope > kFlat * (std::fabs(gain) + rise.slope)) {
      const double square = dot(defect_.data(), defect_.data(), columns);
      const double step = (gain - rise.slope) / (2.0 * (programme.gamma * square + programme.curvature * rise.square));
      for (std::size_t k = 0; k < columns; ++k) v[k] = step * defect_[k];
      for (std::size_t j = 0; j < rows; ++j) z[j] *= step;
      return Verdict::kDescends;
    }
    // One for an orthonormal design: the step after which the defect is least.
    const double whole = dot(defect_.data(), defect_.data(), columns) / dot(z, z, rows);
    project(rows, round == 0 ? whole : kRelaxation * whole, z, programme.slope, multipliers);
  }
  std::fill(v, v + columns, 0.0);
  std::fill(z, z + rows, 0.0);
  std::fill(multipliers, multipliers + rows, 0.0);
  return Verdict::kUnknown;
}

// The middle of the bounds, but no more than the linear term calls for: some slopes may be far larger.
void Origin::guess(const Programme& programme, double* room, double* multipliers) const {
  design_.apply(programme.linear, room);
  const double called_for = max_abs(room, design_.rows());
  for (std::size_t j = 0; j < design_.rows(); ++j) multipliers[j] = std::min(0.5 * programme.slope[j], called_for);
}

}  // namespace dconnet
