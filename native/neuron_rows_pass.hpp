// Hot loops over the rows of a neuron's problem, for `NeuronRows` and `AllRows`. Call them by `fastest`.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

#include "dispatch.hpp"
#include "lanes.hpp"
#include "neuron_rows.hpp"

namespace dconnet {

// Rows that stay in the cache between the product with v and that with the tangent.
inline constexpr std::size_t kTile = 64;
// What the slopes of all outputs are added to: it leaves every bit of the first one, even the sign of a zero.
inline constexpr double kEmptySum = -0.0;

// One output of a network, as seen from a neuron: the sum over the neurons whose output weights have the sign of its own, and
// that over the others.
struct OutputView {
  const double* y;
  const double* same;
  const double* opposite;
  double direction;  // the sign of the neuron's weight
  double twice;      // its absolute value, times two
};

DCONNET_INLINE void add_net_slopes(const OutputView& output, std::size_t rows, double* slopes) {
  for (std::size_t j = 0; j < rows; ++j) {
    slopes[j] += output.twice * (output.same[j] - output.opposite[j] - output.direction * output.y[j]);
  }
}

// Rounding in the sums must not make a slope negative.
DCONNET_INLINE void add_paper_slopes(const OutputView& output, std::size_t rows, double* beta_g, double* beta_h) {
  for (std::size_t j = 0; j < rows; ++j) {
    const double target = output.direction * output.y[j];
    const double same = output.same[j] > 0.0 ? output.same[j] : 0.0;
    const double opposite = output.opposite[j] > 0.0 ? output.opposite[j] : 0.0;
    beta_g[j] += output.twice * (same + (target < 0.0 ? -target : 0.0));
    beta_h[j] += output.twice * (opposite + (target > 0.0 ? target : 0.0));
  }
}

DCONNET_INLINE void add_output(std::size_t rows, double weight, const double* z, double* sum) {
  for (std::size_t j = 0; j < rows; ++j) sum[j] += weight * (z[j] > 0.0 ? z[j] : 0.0);
}

// Adds the rows of a tile to sums in the order of `PassSum`, the largest slope only on request.
template <bool with_steepest>
DCONNET_INLINE void add_hinges(std::size_t rows, const double* beta_g, const double* beta_h, double curvature,
                               const double* z, double* sums) {
  Lanes whole = {}, convex = {}, largest = {}, steepest = {};
  in_fours(rows, {beta_g, beta_h, z}, [&](const Lanes(&x)[3]) DCONNET_ALWAYS_INLINE {
    Lanes active = {};
    raise_to(active, x[2]);
    const Lanes bend = curvature * active;
    whole += (x[0] - x[1] + bend) * active;
    convex += (x[0] + bend) * active;
    raise_to_size(largest, x[2]);
    if constexpr (with_steepest) {
      raise_to_size(steepest, x[0]);
      raise_to_size(steepest, x[1]);
    }
  });
  sums[kHinges] += sum_of(whole);
  sums[kConvexHinges] += sum_of(convex);
  sums[kLargest] = larger(sums[kLargest], largest_of(largest));
  if constexpr (with_steepest) sums[kSteepest] = larger(sums[kSteepest], largest_of(steepest));
}

// The weights of the rows in the tangent.
DCONNET_INLINE void weigh(std::size_t rows, double noise, const double* norms, const double* beta_h, const double* z,
                          double* weights) {
  for (std::size_t j = 0; j < rows; ++j) weights[j] = z[j] >= -noise * norms[j] ? beta_h[j] : 0.0;
}

// Adds the listed rows, weighted, to g.
DCONNET_INLINE void add_listed(const double* Q, std::size_t stride, const Row* rows, std::size_t count,
                               const double* weights, double* g) {
  for (std::size_t i = 0; i < count; ++i) {
    const double* q = Q + std::size_t{rows[i]} * stride;
    for (std::size_t k = 0; k < stride; ++k) g[k] += weights[i] * q[k];
  }
}

// The multipliers of rows at zero: the middle of their bounds, moved along and back into these. Lists those that stay between
// their bounds, and adds the slopes and the squares of what is moved beyond the kinks.
DCONNET_INLINE std::size_t move_multipliers(std::size_t rows, std::size_t first, const double* along, const double* slope,
                                            double* multipliers, Row* between, double* rise) {
  std::size_t found = 0;
  for (std::size_t j = 0; j < rows; ++j) {
    const double moved = 0.5 * slope[j] + along[j], beyond = along[j] > 0.0 ? along[j] : 0.0;
    multipliers[j] = moved < 0.0 ? 0.0 : (moved > slope[j] ? slope[j] : moved);
    between[found] = static_cast<Row>(first + j);
    found += moved > 0.0 && moved < slope[j];
    rise[0] += slope[j] * beyond;
    rise[1] += beyond * beyond;
  }
  return found;
}

// Margins of rows are numbers of single precision, which need less memory traffic, rounded such that a row is checked rather than
// not. A margin of infinity means that the row need never be checked.
inline constexpr float kNeverInDoubt = std::numeric_limits<float>::infinity();
inline constexpr double kLargestFloat = std::numeric_limits<float>::max();
inline constexpr double kFloatRounding = 0x1p-22;

DCONNET_INLINE float below(double x) {
  x *= 1.0 - kFloatRounding;
  return static_cast<float>(x > kLargestFloat ? kLargestFloat : x);
}
DCONNET_INLINE float above(double x) {
  x *= 1.0 + kFloatRounding;
  return static_cast<float>(x > kLargestFloat ? kLargestFloat : x);
}

// The distance of a far row from its kink at its reference: v must move by at least this much for the row to change sides.
DCONNET_INLINE float margin_of(Place place, double z, double norm) {
  const float margin = below((place == Place::kActive ? z : -z) / norm);
  return ((place == Place::kNear) | !(norm > 0.0)) ? kNeverInDoubt : margin;
}

DCONNET_INLINE void measure(std::size_t rows, const Place* places, const double* z, const double* norms, float* margins) {
  for (std::size_t j = 0; j < rows; ++j) margins[j] = margin_of(places[j], z[j], norms[j]);
}

// Writes the places of the rows if those within reach are near, and lists the near ones.
DCONNET_INLINE std::size_t find_places(std::size_t first, std::size_t rows, double reach, const double* z,
                                       const double* norms, Place* places, Row* list) {
  std::size_t near = 0;
  for (std::size_t j = first; j < first + rows; ++j) {
    const bool is_near = (std::fabs(z[j]) <= reach * norms[j]) & (norms[j] > 0.0);
    places[j - first] = is_near ? Place::kNear : (z[j] > 0.0 ? Place::kActive : Place::kInactive);
    list[near] = static_cast<Row>(j);
    near += is_near;
  }
  return near;
}

// Counts the changes, and writes the new places; a near row is an inactive one until it is collected.
DCONNET_INLINE void count_places(std::size_t rows, const Place* now, Place* places, const unsigned char* summed,
                                 double* counts) {
  unsigned active = 0, changed = 0, crossed = 0;
  for (std::size_t j = 0; j < rows; ++j) {
    const bool is_active = now[j] == Place::kActive;
    crossed += (now[j] != Place::kNear) & (places[j] != Place::kNear) & (places[j] != now[j]);
    places[j] = is_active ? Place::kActive : Place::kInactive;
    active += is_active;
    changed += is_active != (summed[j] != 0);
  }
  counts[kActive] = active;
  counts[kChanged] = changed;
  counts[kCrossed] = crossed;
}

// Lists the rows that may have changed sides: `limits` are the distances of v from the reference points.
DCONNET_INLINE std::size_t list_in_doubt(std::size_t first, std::size_t rows, const float* margins,
                                         const unsigned char* reference, const float* limits, Row* list) {
  std::size_t found = 0;
  for (std::size_t j = first; j < first + rows; ++j) {
    list[found] = static_cast<Row>(j);
    found += !(margins[j] > limits[reference[j]]);
  }
  return found;
}

}  // namespace dconnet
