#include "far_rows.hpp"

#include <algorithm>
#include <cmath>

namespace dconnet {

namespace {

// With fewer rows than this, or fewer for each column, `AllRows` is faster.
constexpr std::size_t kLeastRows = 2 * kLeaf;
constexpr std::size_t kRowsPerColumn = 40;
// Share of the rows that are near a new centre, and how many times as many there may be later.
constexpr double kNearShare = 1.0 / 16.0;
constexpr double kMostNearFactor = 2.0;

}  // namespace

bool FarRows::pays_for(std::size_t rows, std::size_t columns) {
  return rows >= std::max(kLeastRows, kRowsPerColumn * columns);
}

std::size_t FarRows::most_near_of(std::size_t rows) {
  return static_cast<std::size_t>(kMostNearFactor * kNearShare * static_cast<double>(rows));
}

FarRows::FarRows(NeuronRows& passes)
    : passes_(passes),
      most_near_(most_near_of(passes.rows())),
      centre_(passes.stride()),
      tangent_(stride()),
      sums_(stride() * stride() + 2 * stride()),
      references_(NeuronRows::kReferences * stride()),
      distances_(NeuronRows::kReferences),
      totals_(passes.leaves(), kPassSums),
      tangents_(passes.leaves(), stride()),
      counts_(passes.leaves(), kCounts),
      rechecked_(passes.leaves(), 1),
      ratios_(passes.leaves() * NeuronRows::kRatios),
      minus_ones_(most_near_, -1.0),
      minus_g_(most_near_),
      minus_h_(most_near_) {
  list_.reserve(most_near_);
}

FarRows::Totals FarRows::open(const double* alpha, const double* v, Split split, const double* kinks) {
  passes_.open(alpha, v, split, kinks, totals_.part(0), tangents_.part(0));
  tangents_.merge(tangent_.data());
  added_up_ = false;
  n_references_ = 0;
  remember(v);
  return merged_totals();
}

FarRows::Totals FarRows::evaluate(const double* v, bool with_tangent) {
  passes_.evaluate(v, totals_.part(0), with_tangent ? tangents_.part(0) : nullptr);
  if (with_tangent) tangents_.merge(tangent_.data());
  n_references_ = 0;
  remember(v);
  return merged_totals();
}

FarRows::Totals FarRows::merged_totals() {
  double sums[kPassSums] = {};
  totals_.merge(sums);
  return {sums[kHinges], sums[kConvexHinges], totals_.largest(kLargest), totals_.largest(kSteepest)};
}

void FarRows::remember(const double* v) { std::copy_n(v, stride(), reference(n_references_++)); }

std::size_t FarRows::centre(const double* v) {
  if (!std::equal(v, v + stride(), reference(0))) evaluate(v, false);
  reach_ = reach();
  std::copy_n(reference(0), stride(), centre_.data());
  passes_.choose(reach_, counts_.part(0));
  double counts[kCounts];
  counts_.merge(counts);
  crossed_ = static_cast<std::size_t>(counts[kCrossed]);
  const std::size_t near = static_cast<std::size_t>(counts[kNear]);
  if (near <= most_near_) add_up(static_cast<std::size_t>(counts[kActive]), static_cast<std::size_t>(counts[kChanged]));
  return near;
}

// The |z_j| / |q_j| up to which a row is near, estimated from a sample of the rows.
double FarRows::reach() {
  passes_.ratios(ratios_.data());
  const auto first = std::partition(ratios_.begin(), ratios_.end(), [](double ratio) { return !(ratio >= 0.0); });
  if (first == ratios_.end()) return 0.0;
  const auto at = first + static_cast<std::ptrdiff_t>(kNearShare * static_cast<double>(ratios_.end() - first));
  std::nth_element(first, at, ratios_.end());
  return *at;
}

// Updates the sums, or computes them from scratch where that is less work or many updates have gathered rounding errors.
void FarRows::add_up(std::size_t active, std::size_t changed) {
  const bool from_scratch = !added_up_ || changed >= active || changes_ + changed > passes_.rows();
  if (from_scratch) {
    std::fill(sums_.begin(), sums_.end(), 0.0);
    changes_ = 0;
  } else {
    changes_ += changed;
  }
  added_up_ = true;
  passes_.add_far_sums(from_scratch, sums_);
}

std::size_t FarRows::recheck_far(const double* v) {
  const double noise = kink_noise(v, columns(), false);
  if (distance(v, centre_.data(), columns()) + noise < reach_) return 0;
  if (n_references_ == NeuronRows::kReferences) evaluate(v, false);
  for (std::size_t i = 0; i < n_references_; ++i) distances_[i] = distance(v, reference(i), columns());
  passes_.recheck_far(v, noise, n_references_, distances_.data(), rechecked_.part(0));
  remember(v);
  double n_changed;
  rechecked_.merge(&n_changed);
  return static_cast<std::size_t>(n_changed);
}

void FarRows::collect(std::size_t count, const PackedRows& to) {
  if (count == 0) return;
  passes_.collect(to);
  list_.clear();
  for (std::size_t i = 0; i < count; ++i) {
    const bool leaves = to.active[i] != 0;
    if (leaves) list_.push_back(static_cast<Row>(i));
    minus_g_[i] = leaves ? -to.beta_g[i] : 0.0;
    minus_h_[i] = leaves ? -to.beta_h[i] : 0.0;
  }
  if (list_.empty()) return;
  Design::view(to.q, count, columns()).add_gram(list_.data(), minus_ones_.data(), list_.size(), sums_.data());
  add_transposed(to.q, count, stride(), minus_g_.data(), sums_.data() + stride() * stride());
  add_transposed(to.q, count, stride(), minus_h_.data(), sums_.data() + stride() * stride() + stride());
  changes_ += list_.size();
}

}  // namespace dconnet
