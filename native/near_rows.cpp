#include "near_rows.hpp"

#include <algorithm>
#include <cmath>

namespace dconnet {

namespace {

// With fewer rows than this, or fewer for each column, all of them are near.
constexpr std::size_t kLeastRows = 2 * kLeaf;
constexpr std::size_t kRowsPerColumn = 40;
// Share of the rows that are taken to be near, and room for more than those.
constexpr double kNearShare = 1.0 / 16.0;
constexpr double kRoom = 1.25;
// So many rows are added one by one; with more, the face is entered anew.
constexpr std::size_t kMostAtOnce = 256;
// One row in so many tells how far the near ones reach.
constexpr std::size_t kSpacing = 16;

std::size_t room_for(std::size_t rows) { return static_cast<std::size_t>(kRoom * kNearShare * static_cast<double>(rows)); }

}  // namespace

bool NearRows::pays_for(const Design& design) {
  return design.rows() >= std::max(kLeastRows, kRowsPerColumn * design.columns());
}

NearRows::NearRows(NeuronRows& rows)
    : rows_(rows),
      places_(rows.design().rows()),
      summed_(rows.design().rows()),
      near_(room_for(rows.design().rows()) + 1),
      solver_(Design::with_room(room_for(rows.design().rows()), rows.design().columns()), false),
      gram_(solver_.design()),
      base_(rows.design().stride() * rows.design().stride()),
      last_base_(base_.size()),
      slopes_(rows.design().stride()),
      sums_(base_.size() + slopes_.size()),
      linear_(rows.design().stride()),
      beta_(room_for(rows.design().rows())),
      z_(room_for(rows.design().rows())),
      multipliers_(room_for(rows.design().rows())),
      counts_(rows.rows().leaves().count(), 1),
      changed_(rows.design().rows()),
      signs_(rows.design().rows()),
      changed_slopes_(rows.design().rows()) {
  ratios_.reserve(places_.size() / kSpacing + 1);
}

void NearRows::forget() {
  centred_ = false;
  std::fill(summed_.begin(), summed_.end(), static_cast<unsigned char>(0));
  std::fill(sums_.begin(), sums_.end(), 0.0);
  changes_ = 0;
}

bool NearRows::centre(const double* z) {
  centred_ = false;
  n_near_ = find_near(z, reach(z));
  if (n_near_ > room_for(places_.size())) return false;
  pack();
  return centred_ = true;
}

bool NearRows::follow(const double* z, std::size_t strayed, bool at_answer, bool& next) {
  next = false;
  if (n_near_ + strayed > room_for(places_.size())) return centre(z);
  const std::size_t first = n_near_;
  add_strayed(z);
  if (!at_answer || strayed > kMostAtOnce || !solver_.add_rows(rows_.design(), near_.data(), first, n_near_)) {
    pack();
    return true;
  }
  for (std::size_t i = first; i < n_near_; ++i) {
    beta_[i] = rows_.beta_g()[near_[i]];
    z_[i] = z[near_[i]];
    multipliers_[i] = 0.0;
  }
  last_base_ = base_;
  sum_others();
  gram_.base_changed(last_base_.data());
  return next = true;
}

void NearRows::pack() {
  solver_.take_rows(rows_.design(), near_.data(), n_near_);
  n_known_ = n_near_;
  for (std::size_t i = 0; i < n_near_; ++i) beta_[i] = rows_.beta_g()[near_[i]];
  sum_others();
  gram_.clear(base_.data());
}

// Within which share of its norm a row is near: estimated from some of them.
double NearRows::reach(const double* z) {
  ratios_.clear();
  for (std::size_t j = 0; j < places_.size(); j += kSpacing) {
    if (rows_.norms()[j] > 0.0) ratios_.push_back(std::fabs(z[j]) / rows_.norms()[j]);
  }
  if (ratios_.empty()) return 0.0;
  const auto at = ratios_.begin() + static_cast<std::ptrdiff_t>(kNearShare * static_cast<double>(ratios_.size()));
  std::nth_element(ratios_.begin(), at, ratios_.end());
  return *at;
}

// Lists the near rows, as far as there is room; returns how many there are.
std::size_t NearRows::find_near(const double* z, double reach) {
  const std::size_t room = room_for(places_.size());
  std::size_t count = 0;
  for (std::size_t j = 0; j < places_.size(); ++j) {
    const bool is_near = std::fabs(z[j]) <= reach * rows_.norms()[j] && rows_.norms()[j] > 0.0;
    places_[j] = is_near ? Place::kNear : (z[j] > 0.0 ? Place::kActive : Place::kInactive);
    near_[std::min(count, room)] = static_cast<Row>(j);
    count += is_near;
  }
  return count;
}

void NearRows::add_strayed(const double* z) {
  for (std::size_t j = 0; j < places_.size(); ++j) {
    if (!has_strayed(j, z)) continue;
    places_[j] = Place::kNear;
    near_[n_near_++] = static_cast<Row>(j);
  }
}

bool NearRows::has_strayed(std::size_t row, const double* z) const {
  return places_[row] == (z[row] > 0.0 ? Place::kInactive : Place::kActive);
}

// The Gram matrix of the active rows that are not near, and the sum of their slopes: brought up to date, or made anew
// where that is less work, which also sweeps out the rounding of many changes.
void NearRows::sum_others() {
  const Design& design = rows_.design();
  std::size_t count = 0, changes = 0;
  for (std::size_t j = 0; j < places_.size(); ++j) {
    count += places_[j] == Place::kActive;
    changes += (places_[j] == Place::kActive) != (summed_[j] != 0);
  }
  if (changes >= count || changes_ + changes > places_.size()) forget();
  changes_ += changes;
  rows_.rows().add_in_order(sums_.size(), sums_.data(), [&](const Leaf& leaf, double* sums) {
    Row* list = changed_.data() + leaf.first;
    double* weights = signs_.data() + leaf.first;
    double* slopes = changed_slopes_.data() + leaf.first;
    std::size_t changed = 0;
    for (std::size_t j = leaf.first; j < leaf.end(); ++j) {
      const bool is = places_[j] == Place::kActive, was = summed_[j] != 0;
      list[changed] = static_cast<Row>(j);
      weights[changed] = is ? 1.0 : -1.0;
      slopes[j - leaf.first] = is != was ? weights[changed] * rows_.beta_g()[j] : 0.0;
      changed += is != was;
      summed_[j] = is;
    }
    add_transposed(design.row(leaf.first), leaf.count, design.stride(), slopes, sums + base_.size());
    design.add_gram(list, weights, changed, sums);
  });
  std::copy_n(sums_.data(), base_.size(), base_.begin());
  std::copy_n(sums_.data() + base_.size(), slopes_.size(), slopes_.begin());
}

Outcome NearRows::solve(const double* linear, double curvature, double gamma, double tolerance,
                        std::size_t max_iterations, bool next, double* v) {
  const Design& near = solver_.design();
  for (std::size_t k = 0; k < linear_.size(); ++k) linear_[k] = linear[k] - slopes_[k];
  if (!next) {
    near.apply(v, z_.data());
    for (std::size_t i = 0; i < near.rows(); ++i) {
      multipliers_[i] = z_[i] > 0.0 ? beta_[i] + 2.0 * curvature * z_[i] : 0.0;
    }
  }
  const Programme programme{near, linear_.data(), beta_.data(), curvature, gamma, base_.data()};
  if (next) solver_.admit(programme, n_known_, z_.data());
  n_known_ = n_near_;
  return solver_.solve(programme, tolerance, max_iterations, next, v, z_.data(), multipliers_.data(), gram_);
}

std::size_t NearRows::strayed(const double* z) {
  rows_.rows().each([&](const Leaf& leaf, std::size_t i, std::size_t) {
    std::size_t count = 0;
    for (std::size_t j = leaf.first; j < leaf.end(); ++j) count += has_strayed(j, z);
    *counts_.clear(i) = static_cast<double>(count);
  });
  double count;
  counts_.merge(&count);
  return static_cast<std::size_t>(count);
}

}  // namespace dconnet
