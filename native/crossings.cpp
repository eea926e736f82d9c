#include "crossings.hpp"

#include <algorithm>
#include <cmath>

#include "dispatch.hpp"
#include "lanes.hpp"

namespace dconnet {

namespace {

// Lists where z changes sign on the way to z + limit along. Most do not, and are passed in fours.
DCONNET_INLINE std::size_t sign_changes(std::size_t count, double limit, const double* z,
                                        const double* along, Row* list) {
  std::size_t found = 0, i = 0;
  const auto changes = [&](std::size_t at) -> unsigned { return z[at] * (z[at] + limit * along[at]) < 0.0; };
  for (; i + 4 <= count; i += 4) {
    if (!(changes(i) | changes(i + 1) | changes(i + 2) | changes(i + 3))) continue;
    for (std::size_t at = i; at < i + 4; ++at) {
      list[found] = static_cast<Row>(at);
      found += changes(at);
    }
  }
  for (; i < count; ++i) {
    list[found] = static_cast<Row>(i);
    found += changes(i);
  }
  return found;
}

}  // namespace

void Crossings::collect(const NearPlaces& near, double limit) {
  count_ = fastest<sign_changes>(near.count, limit, near.z, near.along, places_.data());
  for (std::size_t i = 0; i < count_; ++i) {
    const std::size_t place = places_[i];
    at_[place] = -near.z[place] / near.along[place];
  }
}

void Crossings::add_at_start(std::size_t place) {
  at_[place] = 0.0;
  places_[count_++] = static_cast<Row>(place);
}

// The slope along the direction, c + d tau without the crossings, jumps at each of them. If it only jumps up, the crossing at
// which it changes sign is found by bisection; if it may also jump down, the crossings are passed in their order.
Stop Crossings::lowest(const Programme& programme, const Face& face, const NearPlaces& near, double curvature,
                       double limit) {
  double constant = -curvature, linear = curvature;
  Row* first = places_.data();
  Row* last = first + count_;
  const auto pass = [&](std::size_t place, double& c, double& d) {
    const double along = near.along[place];
    const double bend = 2.0 * programme.curvature * along * along;
    const double change = face.side(near.rows[place]) == Side::kActive ? -bend : bend;
    c += programme.slope[near.rows[place]] * std::fabs(along) - change * at_[place];
    d += change;
  };
  if (!programme.is_convex) {
    const auto is_later = [&](Row a, Row b) { return at_[a] > at_[b]; };
    for (std::make_heap(first, last, is_later); first != last; std::pop_heap(first, last--, is_later)) {
      const double at = at_[*first];
      if (constant + linear * at >= 0.0) break;
      pass(*first, constant, linear);
      if (programme.slope[near.rows[*first]] > 0.0 && constant + linear * at >= 0.0) return {at, true, *first};
    }
    first = last;
  }
  while (first != last) {
    const double pivot = at_[first[(last - first) / 2]];
    Row* const equal = std::partition(first, last, [&](Row place) { return at_[place] < pivot; });
    Row* const above = std::partition(equal, last, [&](Row place) { return !(at_[place] > pivot); });
    double c = constant, d = linear;
    for (const Row* x = first; x != equal; ++x) pass(*x, c, d);
    if (c + d * pivot >= 0.0) {
      last = equal;
      continue;
    }
    for (const Row* x = equal; x != above; ++x) pass(*x, c, d);
    if (c + d * pivot >= 0.0) return {pivot, true, *equal};
    constant = c, linear = d;
    first = above;
  }
  // Crossings beyond the limit are not known.
  const double at = linear > 0.0 ? std::min(-constant / linear, limit) : limit;
  return {at, false, 0};
}

}  // namespace dconnet
