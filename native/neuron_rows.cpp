#include "neuron_rows.hpp"

#include <algorithm>
#include <cmath>

#include "dispatch.hpp"
#include "lanes.hpp"

namespace dconnet {

namespace {

// Rows that stay in the cache between the product with v and that with the tangent.
constexpr std::size_t kTile = 64;
// Room for rounding in the norm of a row.
constexpr double kSafety = 1.0 + 1e-9;
// What the slopes of all outputs are added to: it leaves every bit of the first one, even the sign of a zero.
constexpr double kEmptySum = -0.0;

// One output of a network, as seen from a neuron: what the neurons add to it whose weights have the sign of its own,
// and what those add whose weights do not.
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

// Sums over the rows of a tile; the order of the numbers in `Look`.
enum Sum : std::size_t { kHinges, kConvexHinges, kLargest, kChanged, kSums };

DCONNET_INLINE void add_hinges(std::size_t rows, const double* beta_g, const double* beta_h, double curvature,
                               const double* z, double* sums) {
  Lanes whole = {}, convex = {}, largest = {};
  in_fours(rows, {beta_g, beta_h, z}, [&](const Lanes(&x)[3]) DCONNET_ALWAYS_INLINE {
    Lanes active = {};
    raise_to(active, x[2]);
    const Lanes bend = curvature * active;
    whole += (x[0] - x[1] + bend) * active;
    convex += (x[0] + bend) * active;
    raise_to(largest, x[2]);
    raise_to(largest, -x[2]);
  });
  sums[kHinges] += sum_of(whole);
  sums[kConvexHinges] += sum_of(convex);
  const double most = largest_of(largest);
  sums[kLargest] = sums[kLargest] >= most ? sums[kLargest] : most;  // NaN stays
}

// Marks the rows in the tangent, writes their weights, and counts those that were not marked so before.
DCONNET_INLINE double mark(std::size_t rows, double noise, bool with_slope, const double* norms, const double* beta_h,
                           const double* z, const unsigned char* before, unsigned char* marks, double* weights) {
  std::size_t changed = 0;
  for (std::size_t j = 0; j < rows; ++j) {
    const bool above = z[j] >= -noise * norms[j];
    const unsigned char is = above & (!with_slope | (beta_h[j] > 0.0));
    changed += is != before[j];
    marks[j] = is;
    weights[j] = above ? beta_h[j] : 0.0;
  }
  return static_cast<double>(changed);
}

}  // namespace

NeuronRows::NeuronRows(const Design& design, std::size_t n_hidden, std::size_t n_outputs, Team& team)
    : n_hidden_(n_hidden),
      n_outputs_(n_outputs),
      rows_(design, team),
      V_(n_hidden * design.stride()),
      targets_(n_outputs * design.rows()),
      positive_(n_outputs * design.rows()),
      negative_(n_outputs * design.rows()),
      beta_g_(design.rows()),
      beta_h_(design.rows()),
      z_(design.rows()),
      trial_z_(design.rows()),
      norms_(design.rows()),
      weights_(design.rows()),
      active_(design.rows()),
      trial_active_(design.rows()),
      tangent_(design.stride()),
      trial_tangent_(design.stride()),
      sums_(rows_.leaves().count(), kSums),
      tangents_(rows_.leaves().count(), design.stride()) {
  rows_.each([&](const Leaf& leaf, std::size_t, std::size_t) {
    for (std::size_t j = leaf.first; j < leaf.end(); ++j) {
      norms_[j] = kSafety * std::sqrt(dot(design.row(j), design.row(j), design.stride()));
    }
  });
}

double NeuronRows::take_up(const double* y, const double* alpha, const double* V) {
  const std::size_t all = design().rows(), columns = design().columns();
  for (std::size_t unit = 0; unit < n_hidden_; ++unit) {
    std::copy_n(V + unit * columns, columns, V_.data() + unit * design().stride());
  }
  rows_.each([&](const Leaf& leaf, std::size_t i, std::size_t) {
    double& squares = *sums_.clear(i);
    for (std::size_t o = 0; o < n_outputs_; ++o) {
      const std::size_t begin = o * all + leaf.first;
      std::fill_n(positive_.data() + begin, leaf.count, 0.0);
      std::fill_n(negative_.data() + begin, leaf.count, 0.0);
      for (std::size_t j = 0; j < leaf.count; ++j) targets_[begin + j] = y[(leaf.first + j) * n_outputs_ + o];
    }
    for (std::size_t unit = 0; unit < n_hidden_; ++unit) {
      rows_.apply(leaf, V_.data() + unit * design().stride(), z_.data() + leaf.first);
      add_outputs(leaf, alpha + unit * n_outputs_, z_.data(), 1.0);
    }
    for (std::size_t o = 0; o < n_outputs_; ++o) {
      for (std::size_t j = o * all + leaf.first; j < o * all + leaf.end(); ++j) {
        const double residual = targets_[j] - (positive_[j] - negative_[j]);
        squares += residual * residual;
      }
    }
  });
  double sums[kSums];
  sums_.merge(sums);
  return sums[0];
}

void NeuronRows::open(const double* alpha, const double* v, Split split) {
  rows_.each([&](const Leaf& leaf, std::size_t i, std::size_t) {
    rows_.apply(leaf, v, trial_z_.data() + leaf.first);
    add_outputs(leaf, alpha, trial_z_.data(), -1.0);
    split_slopes(leaf, alpha, split);
    *sums_.clear(i) = std::max(max_abs(beta_g_.data() + leaf.first, leaf.count),
                               max_abs(beta_h_.data() + leaf.first, leaf.count));
    std::fill_n(active_.data() + leaf.first, leaf.count, static_cast<unsigned char>(2));  // no row has been looked at
  });
  steepest_ = sums_.largest(0);
}

void NeuronRows::close(const double* alpha) {
  rows_.each([&](const Leaf& leaf, std::size_t, std::size_t) { add_outputs(leaf, alpha, z_.data(), 1.0); });
}

void NeuronRows::add_outputs(const Leaf& leaf, const double* alpha, const double* z, double sign) {
  for (std::size_t o = 0; o < n_outputs_; ++o) {
    double* sum = (alpha[o] > 0.0 ? positive_ : negative_).data() + o * design().rows() + leaf.first;
    fastest<add_output>(leaf.count, sign * std::fabs(alpha[o]), z + leaf.first, sum);
  }
}

// Slopes of the convex and of the concave part, for the sums without the neuron itself.
void NeuronRows::split_slopes(const Leaf& leaf, const double* alpha, Split split) {
  double* beta_g = beta_g_.data() + leaf.first;
  double* beta_h = beta_h_.data() + leaf.first;
  std::fill_n(beta_g, leaf.count, kEmptySum);
  std::fill_n(beta_h, leaf.count, kEmptySum);
  for (std::size_t o = 0; o < n_outputs_; ++o) {
    const std::size_t begin = o * design().rows() + leaf.first;
    const double *positive = positive_.data() + begin, *negative = negative_.data() + begin;
    const bool up = alpha[o] > 0.0;
    const OutputView output{targets_.data() + begin, up ? positive : negative, up ? negative : positive,
                            up ? 1.0 : -1.0, 2.0 * std::fabs(alpha[o])};
    if (split == Split::kPaper) fastest<add_paper_slopes>(output, leaf.count, beta_g, beta_h);
    else fastest<add_net_slopes>(output, leaf.count, beta_g);
  }
  if (split == Split::kPaper) return;
  for (std::size_t j = 0; j < leaf.count; ++j) {
    const double slope = beta_g[j];
    beta_g[j] = std::max(slope, 0.0);
    beta_h[j] = std::max(-slope, 0.0);
  }
}

NeuronRows::Look NeuronRows::look(const double* v, double curvature, bool with_slope, bool known) {
  const std::size_t stride = design().stride();
  const double noise = kNeuronKinkTolerance * std::sqrt(dot(v, v, design().columns()));
  rows_.each([&](const Leaf& leaf, std::size_t i, std::size_t) {
    double* sums = sums_.clear(i);
    double* tangent = tangents_.clear(i);
    for (std::size_t first = leaf.first; first < leaf.end(); first += kTile) {
      const std::size_t count = std::min(kTile, leaf.end() - first);
      double* z = trial_z_.data() + first;
      const double* beta_h = beta_h_.data() + first;
      if (!known) multiply(design().row(first), count, stride, v, z);
      fastest<add_hinges>(count, beta_g_.data() + first, beta_h, curvature, z, sums);
      sums[kChanged] += fastest<mark>(count, noise, with_slope, norms_.data() + first, beta_h, z,
                                      active_.data() + first, trial_active_.data() + first, weights_.data() + first);
      add_transposed(design().row(first), count, stride, weights_.data() + first, tangent);
    }
  });
  double sums[kSums];
  sums_.merge(sums);
  tangents_.merge(trial_tangent_.data());
  return {sums[kHinges], sums[kConvexHinges], sums_.largest(kLargest), static_cast<std::size_t>(sums[kChanged])};
}

void NeuronRows::accept() {
  z_.swap(trial_z_);
  active_.swap(trial_active_);
  tangent_.swap(trial_tangent_);
}

void NeuronRows::convex_pull(double curvature, double* pull) {
  rows_.each([&](const Leaf& leaf, std::size_t, std::size_t) {
    for (std::size_t j = leaf.first; j < leaf.end(); ++j) {
      weights_[j] = z_[j] > 0.0 ? beta_g_[j] + 2.0 * curvature * z_[j] : 0.0;
    }
  });
  rows_.apply_transposed(weights_.data(), pull);
}

double NeuronRows::cancelling() const {
  double sum = 0.0;
  for (std::size_t j = 0; j < z_.size(); ++j) {
    if (z_[j] > 0.0) sum += (beta_g_[j] + beta_h_[j]) * z_[j];
  }
  return sum;
}

double NeuronRows::lift() const {
  double sum = 0.0;
  for (std::size_t j = 0; j < z_.size(); ++j) {
    if (active_[j] && z_[j] < 0.0) sum -= beta_h_[j] * z_[j];
  }
  return sum;
}

void NeuronRows::set_zero() { std::fill(z_.begin(), z_.end(), 0.0); }

}  // namespace dconnet
