#include "screen.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "dispatch.hpp"
#include "lanes.hpp"

namespace dconnet {

namespace {

// The reach of a list, in lengths of the last move.
constexpr double kReach = 4.0;
// A list is shortened if its reach is this many times too long, unless it has less than this share of the rows.
constexpr double kExcess = 4.0, kFew = 1.0 / 256.0;
// A list of at most this share of the rows is kept as the known one when it is shortened.
constexpr double kSome = 1.0 / 16.0;
// Outside of these fractions of a step, a list with the reach of the whole step costs no more.
constexpr double kMostOfTheWay = 0.5, kLeastOfTheWay = 1e-6;
// A little more than one, for rounding in lengths.
constexpr double kSafety = 1.0 + 1e-9;

DCONNET_INLINE void move(std::size_t count, double step, const double* along, double* z) {
  for (std::size_t i = 0; i < count; ++i) z[i] += step * along[i];
}

// Lists the rows that a move of length `reach` can take to their kink.
DCONNET_INLINE std::size_t rows_within(std::size_t rows, double reach, const double* z, const double* norms,
                                       Row* list) {
  std::size_t found = 0;
  for (std::size_t j = 0; j < rows; ++j) {
    list[found] = static_cast<Row>(j);
    found += std::fabs(z[j]) <= reach * norms[j];
  }
  return found;
}

// Where a sorted list has the row.
std::size_t place_in(const std::vector<Row>& list, std::size_t count, std::size_t row) {
  const auto end = list.begin() + static_cast<std::ptrdiff_t>(count);
  return static_cast<std::size_t>(std::lower_bound(list.begin(), end, static_cast<Row>(row)) - list.begin());
}

}  // namespace

Screen::Screen(const Design& design, Scratch& scratch, Team* team)
    : design_(design),
      products_(team),
      norms_(design.rows()),
      near_(design.rows() + 1),
      known_(design.rows()),
      z_(scratch.z),
      along_(scratch.along),
      reference_(design.stride()),
      known_reference_(design.stride()) {
  measure_rows(0);
}

void Screen::measure_rows(std::size_t first) {
  for (std::size_t j = first; j < design_.rows(); ++j) {
    norms_[j] = design_.norm(j);
  }
}

void Screen::begin() {
  reach_ = 0.0;
  n_known_ = 0;
  moved_ = false;
}

std::size_t Screen::place_of(std::size_t row) const {
  const std::size_t place = place_in(near_, n_near_, row);
  assert(place < n_near_ && near_[place] == row);
  return place;
}

// Rows that are not in the list are at least as far from their kinks as the old reach less the distance from the reference.
void Screen::shorten(double last_move, const double* v) {
  const std::size_t columns = design_.columns();
  const double reach = kReach * last_move;
  const bool many = static_cast<double>(n_near_) > kFew * static_cast<double>(design_.rows());
  if (!many || !(reach > 0.0 && reach_ > kExcess * reach)) return;
  if (!(reach_ - distance(v, reference_.data(), columns) > reach)) return;
  // Later moves may be longer again: the rows that are dropped now may be near then.
  if (n_known_ == 0 || static_cast<double>(n_near_) > kSome * static_cast<double>(design_.rows())) {
    std::copy(near_.begin(), near_.begin() + static_cast<std::ptrdiff_t>(n_near_), known_.begin());
    std::copy(reference_.begin(), reference_.end(), known_reference_.begin());
    n_known_ = n_near_;
    known_reach_ = reach_;
  }
  std::copy(v, v + columns, reference_.begin());
  reach_ = reach;
  drop_far();
}

double Screen::length_within_reach(const double* v, const double* direction) const {
  double length = 0.0, so_far = 0.0, target = 0.0;
  for (std::size_t k = 0; k < design_.columns(); ++k) {
    const double moved = v[k] - reference_[k];
    length += direction[k] * direction[k];
    so_far += moved * moved;
    target += (moved + direction[k]) * (moved + direction[k]);
  }
  if (target <= reach_ * reach_) return 1.0;
  return (reach_ - std::sqrt(so_far)) / std::sqrt(length);
}

void Screen::list_rows(double last_move, bool whole, const double* v, const double* direction,
                         const std::vector<std::size_t>& held, const std::vector<std::size_t>& grounded, double* z) {
  // Most of the step is as good as all of it, and a reach of zero would mean no list.
  const double length = std::sqrt(dot(direction, direction, design_.columns()));
  const double ahead = whole ? INFINITY : kReach * last_move;
  reach_ = ahead < kMostOfTheWay * length && ahead > kLeastOfTheWay * length ? ahead : kReach * length;
  const double known = n_known_ > 0 ? known_reach_ - distance(v, known_reference_.data(), design_.columns()) : 0.0;
  // With a little more than the whole length, so that rounding leaves nothing of it out of reach.
  if (moved_ && known >= std::min(reach_, kSafety * length)) {
    reach_ = std::min(reach_, known);
    products_.apply_to_rows(design_, known_.data(), n_known_, v, z_.data());
    for (const std::size_t row : held) z_[place_in(known_, n_known_, row)] = 0.0;
    for (const std::size_t row : grounded) z_[place_in(known_, n_known_, row)] = 0.0;
    std::copy(known_.begin(), known_.begin() + static_cast<std::ptrdiff_t>(n_known_), near_.begin());
    n_near_ = n_known_;
    drop_far();
  } else {
    if (moved_) apply(v, z);
    moved_ = false;
    n_known_ = 0;
    for (const std::size_t row : held) z[row] = 0.0;
    for (const std::size_t row : grounded) z[row] = 0.0;
    n_near_ = fastest<rows_within>(design_.rows(), reach_, z, norms_.data(), near_.data());
    for (std::size_t i = 0; i < n_near_; ++i) z_[i] = z[near_[i]];
  }
  std::copy(v, v + design_.columns(), reference_.begin());
}

void Screen::advance(double step) {
  fastest<move>(n_near_, step, along_.data(), z_.data());
  moved_ = true;
}

// Removes rows from the list that are out of reach.
void Screen::drop_far() {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < n_near_; ++i) {
    near_[kept] = near_[i];
    z_[kept] = z_[i];
    kept += std::fabs(z_[i]) <= reach_ * norms_[near_[i]];
  }
  n_near_ = kept;
}

}  // namespace dconnet
