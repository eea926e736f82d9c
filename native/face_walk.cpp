#include "face_walk.hpp"

#include <algorithm>
#include <cmath>

#include "dispatch.hpp"
#include "lanes.hpp"
#include "sample.hpp"

namespace dconnet {

namespace {

// Rows this close to their kink, as a fraction of |q_j| |v|, are held there at the start: their z is rounded with that.
constexpr double kKinkTolerance = 1e-12;
// A row stays on its side unless it is wrong by more than this fraction of the largest value.
constexpr double kTolerance = 1e-13;
// Less than this fraction of the start, or of what the linear term calls for, is zero.
constexpr double kZero = 1e-12;
// How many times the length of the last move to look ahead.
constexpr double kReach = 4.0;
// Factor by which that may be too much before it is corrected, and share of the rows that are not worth it.
constexpr double kExcess = 4.0, kFew = 1.0 / 256.0;
// Share of the rows up to which a list is kept for later, when a shorter one will do.
constexpr double kSome = 1.0 / 16.0;
// Outside of these fractions of a step, looking ahead as far as the whole of it costs no more.
constexpr double kMostOfTheWay = 0.5, kLeastOfTheWay = 1e-6;
// From this share of the rows on, those that may come to their kink make a better start worth its while.
constexpr double kMany = 0.1;
// Steps between looks at the clock: a step takes some microseconds at the least, and hardly ever some milliseconds.
constexpr std::size_t kStepsBetweenLooks = 16;
// Room for rounding in a norm.
constexpr double kSafety = 1.0 + 1e-9;
// As many times the rows may be searched for a stop: those at hand, those a little ahead, and those of the whole way.
constexpr int kLooks = 3;

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

DCONNET_INLINE void advance(std::size_t count, double step, const double* along, double* z) {
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

double distance(const double* v, const double* w, std::size_t columns) {
  double square = 0.0;
  for (std::size_t k = 0; k < columns; ++k) square += (v[k] - w[k]) * (v[k] - w[k]);
  return std::sqrt(square);
}

}  // namespace

FaceWalk::FaceWalk(const Design& design, Face& face, Scratch& scratch, Sample* sample, Team* team)
    : design_(design),
      face_(face),
      sample_(sample),
      products_(team),
      sides_(design.rows()),
      norms_(design.rows()),
      near_(design.rows() + 1),
      known_(design.rows()),
      z_(scratch.z),
      along_(scratch.along),
      at_(scratch.slopes),
      crossings_(design.rows() + 1),
      direction_(design.stride()),
      reference_(design.stride()),
      known_reference_(design.stride()),
      clipped_(design.stride()) {
  measure_rows();
  fresh_.reserve(design.columns());
  released_.reserve(design.columns());
  grounded_.reserve(2 * design.columns());
}

void FaceWalk::measure_rows(std::size_t first) {
  for (std::size_t j = first; j < design_.rows(); ++j) {
    norms_[j] = kSafety * std::sqrt(dot(design_.row(j), design_.row(j), design_.stride()));
  }
}

bool FaceWalk::solve(const Programme& programme, std::size_t max_steps, bool resume, double* v, double* z,
                     double* multipliers, ActiveGram& gram, std::size_t& steps, const Enough& enough) {
  ended_early_ = false;
  bounding_ = enough.wanted();
  bound_ = -INFINITY;
  grounded_.clear();
  fresh_.clear();
  degenerate_ = false;
  reach_ = last_move_ = 0.0;
  n_known_ = 0;
  moved_ = false;
  const double called_for =
      max_abs(programme.linear, design_.columns()) / (2.0 * (programme.gamma + programme.curvature));
  noise_ = kZero * std::max(max_abs(v, design_.columns()), called_for);
  if (resume) {
    face_.resume(programme);
  } else if (!start(programme, v, z, gram)) {
    return false;
  }
  if (sample_ && is_far(v, z) && start_from_sample(programme, v, z)) {
    if (max_abs(v, design_.columns()) == 0.0 || !start(programme, v, z, gram)) return false;
  }
  for (std::size_t i = 0; i < max_steps && !degenerate_; ++i) {
    if (i % kStepsBetweenLooks == kStepsBetweenLooks - 1 && proceed_ && !(*proceed_)()) break;
    ++steps;
    if (!face_.minimise()) break;
    if (bounding_ && enough.is_reached(face_.value(v), bound_)) {
      leave_start(programme, v, z, multipliers);
      return ended_early_ = true;
    }
    const bool released = release(programme);
    if (released && !settle_releases(v)) break;
    if (step(programme, v, z)) continue;
    fresh_.clear();
    if (released || release(programme)) continue;
    std::copy(face_.v(), face_.v() + design_.columns(), v);
    products_.apply(design_, v, z);
    face_.multipliers(z, multipliers);
    return true;
  }
  if (moved_) leave_start(programme, v, z, multipliers);
  return false;
}

// What belongs to the point where the walk ended, which may be far from the start.
void FaceWalk::leave_start(const Programme& programme, const double* v, double* z, double* multipliers) const {
  products_.apply(design_, v, z);
  for (std::size_t j = 0; j < design_.rows(); ++j) {
    multipliers[j] = z[j] > 0.0 ? programme.slope[j] + 2.0 * programme.curvature * z[j] : 0.0;
  }
}

bool FaceWalk::start(const Programme& programme, const double* v, const double* z, ActiveGram& gram) {
  const double rounding = kKinkTolerance * std::sqrt(dot(v, v, design_.columns()));
  for (std::size_t j = 0; j < design_.rows(); ++j) {
    const double noise = rounding * norms_[j];
    sides_[j] = z[j] > noise ? Side::kActive : (z[j] < -noise ? Side::kInactive : Side::kKink);
  }
  return face_.enter(programme, sides_.data(), gram, along_.data());
}

// Whether many rows are nearer to their kink than the minimiser on the face is.
bool FaceWalk::is_far(const double* v, const double* z) {
  if (!face_.minimise()) return false;
  const double length = distance(face_.v(), v, design_.columns());
  const std::size_t near = fastest<rows_within>(design_.rows(), length, z, norms_.data(), near_.data());
  return static_cast<double>(near) > kMany * static_cast<double>(design_.rows());
}

// Replaces v and z by the solution for the sample, if that is lower.
bool FaceWalk::start_from_sample(const Programme& programme, double* v, double* z) {
  if (!sample_->solve(programme, face_.pull_of_active(v), v)) return false;
  products_.apply(design_, sample_->v(), z_.data());
  if (!(value(programme, sample_->v(), z_.data()) < value(programme, v, z))) return false;
  std::copy(sample_->v(), sample_->v() + design_.columns(), v);
  std::copy(z_.begin(), z_.begin() + static_cast<std::ptrdiff_t>(design_.rows()), z);
  return true;
}

// Goes towards the minimiser on the face; true if that led to another face.
bool FaceWalk::step(const Programme& programme, double* v, double* z) {
  const std::size_t columns = design_.columns();
  for (std::size_t k = 0; k < columns; ++k) direction_[k] = face_.v()[k] - v[k];
  if (max_abs(direction_.data(), columns) <= kTolerance * max_abs(v, columns)) return false;
  const Stop stop = search(programme, v, z);
  if (bounding_ && whole_way_) bound_ = std::max(bound_, lower_bound(programme));
  for (std::size_t k = 0; k < columns; ++k) v[k] += stop.at * direction_[k];
  if (max_abs(v, columns) <= noise_) return end_at_zero(v);
  fastest<advance>(n_near_, stop.at, along_.data(), z_.data());
  moved_ = true;
  last_move_ = stop.at * std::sqrt(dot(direction_.data(), direction_.data(), columns));
  return change_sides(stop) || degenerate_;
}

// At zero all rows meet.
bool FaceWalk::end_at_zero(double* v) {
  std::fill(v, v + design_.columns(), 0.0);
  moved_ = degenerate_ = true;
  return true;
}

// The dual value at the multipliers of the minimiser on the face, of which negative ones count as zero. If none were, nor
// beyond their slopes at the kinks, it would be the least value on the face, -(gamma |v|² + a sum of z² over the active
// rows), but for the rows that would cross to there.
double FaceWalk::lower_bound(const Programme& programme) {
  const std::size_t columns = design_.columns();
  double bound = -0.5 * face_.curvature_along(face_.v());
  std::fill(clipped_.begin(), clipped_.end(), 0.0);
  const auto clip = [&](std::size_t row, double multiplier) {
    if (multiplier < 0.0) design_.add_row(row, -multiplier, clipped_.data());
  };
  for (std::size_t i = 0; i < n_crossings_; ++i) {
    const std::size_t place = crossings_[i], row = near_[place];
    if (face_.side(row) != Side::kActive) continue;
    const double there = z_[place] + along_[place];
    bound += programme.curvature * there * there;
    clip(row, programme.slope[row] + 2.0 * programme.curvature * there);
  }
  for (std::size_t i = 0; i < face_.kinks().size(); ++i) {
    const std::size_t row = face_.kinks()[i];
    const double excess = std::max(face_.force(i) - programme.slope[row], 0.0);
    bound -= excess * excess / (4.0 * programme.curvature);
    clip(row, face_.force(i));
  }
  return bound + dot(face_.v(), clipped_.data(), columns) -
         dot(clipped_.data(), clipped_.data(), columns) / (4.0 * programme.gamma);
}

// Searches as far as the rows that are near are all that matter, and looks further around where that is not enough.
FaceWalk::Stop FaceWalk::search(const Programme& programme, const double* v, double* z) {
  const double curvature = face_.curvature_along(direction_.data());
  double ahead = kReach * last_move_;
  const bool many = static_cast<double>(n_near_) > kFew * static_cast<double>(design_.rows());
  if (many && ahead > 0.0 && reach_ > kExcess * ahead) come_closer(ahead, v);
  double limit = length_within_reach(v);
  // The rows at hand may tell nothing, a look ahead not enough; a look at the whole direction does.
  for (int looks = 0; looks < kLooks; ++looks) {
    if (limit > 0.0) {
      products_.apply_to_rows(design_, near_.data(), n_near_, direction_.data(), along_.data());
      for (const std::size_t row : face_.kinks()) along_[place_in(near_, n_near_, row)] = 0.0;  // exactly
      collect_crossings(limit);
      const Stop stop = lowest(programme, curvature, limit);
      whole_way_ = limit >= 1.0;
      if (stop.at < limit || whole_way_) return stop;
      ahead = INFINITY;
    }
    look_around(ahead, v, z);
    limit = length_within_reach(v);
  }
  // Only where the lengths are no numbers.
  degenerate_ = true;
  n_crossings_ = 0;
  return {0.0, false, 0};
}

// How much of the direction, at most all of it, stays within reach of the reference.
double FaceWalk::length_within_reach(const double* v) const {
  double length = 0.0, so_far = 0.0, target = 0.0;
  for (std::size_t k = 0; k < design_.columns(); ++k) {
    const double moved = v[k] - reference_[k];
    length += direction_[k] * direction_[k];
    so_far += moved * moved;
    target += (moved + direction_[k]) * (moved + direction_[k]);
  }
  if (target <= reach_ * reach_) return 1.0;
  return (reach_ - std::sqrt(so_far)) / std::sqrt(length);
}

// Lists the rows that may come to their kink while v moves on by `ahead`; the others need not be looked at until then.
void FaceWalk::look_around(double ahead, const double* v, double* z) {
  // Most of the way is as good as all of it, and a reach of nothing would be none.
  const double length = std::sqrt(dot(direction_.data(), direction_.data(), design_.columns()));
  reach_ = ahead < kMostOfTheWay * length && ahead > kLeastOfTheWay * length ? ahead : kReach * length;
  const double known = n_known_ > 0 ? known_reach_ - distance(v, known_reference_.data(), design_.columns()) : 0.0;
  // With a little more than the whole length, so that rounding leaves nothing of it out of reach.
  if (moved_ && known >= std::min(reach_, kSafety * length)) {
    reach_ = std::min(reach_, known);
    look_among_known(v);
  } else {
    look_at_all(v, z);
  }
  std::copy(v, v + design_.columns(), reference_.begin());
  for (std::size_t i = 0; i < n_near_; ++i) keep_on_side(i);
}

void FaceWalk::look_at_all(const double* v, double* z) {
  if (moved_) products_.apply(design_, v, z);
  moved_ = false;
  n_known_ = 0;
  for (const std::size_t row : face_.kinks()) z[row] = 0.0;
  for (const std::size_t row : grounded_) z[row] = 0.0;
  n_near_ = fastest<rows_within>(design_.rows(), reach_, z, norms_.data(), near_.data());
  for (std::size_t i = 0; i < n_near_; ++i) z_[i] = z[near_[i]];
}

void FaceWalk::look_among_known(const double* v) {
  products_.apply_to_rows(design_, known_.data(), n_known_, v, z_.data());
  for (const std::size_t row : face_.kinks()) z_[place_in(known_, n_known_, row)] = 0.0;
  for (const std::size_t row : grounded_) z_[place_in(known_, n_known_, row)] = 0.0;
  std::copy(known_.begin(), known_.begin() + static_cast<std::ptrdiff_t>(n_known_), near_.begin());
  n_near_ = n_known_;
  drop_far();
}

// Looks no further than `reach` from here on. Rows that were left out before are at least as far away as the old reach
// less the way since then.
void FaceWalk::come_closer(double reach, const double* v) {
  const std::size_t columns = design_.columns();
  if (!(reach_ - distance(v, reference_.data(), columns) > reach)) return;
  // The way may become longer again: the rows that are dropped now may be near then.
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

// Leaves only rows in the list that are within reach.
void FaceWalk::drop_far() {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < n_near_; ++i) {
    near_[kept] = near_[i];
    z_[kept] = z_[i];
    kept += std::fabs(z_[i]) <= reach_ * norms_[near_[i]];
  }
  n_near_ = kept;
}

// Rounding must not leave a row on the other side of its kink.
void FaceWalk::keep_on_side(std::size_t place) {
  const Side side = face_.side(near_[place]);
  if (side == Side::kKink || (side == Side::kActive ? z_[place] > 0.0 : z_[place] < 0.0)) return;
  z_[place] = 0.0;
  ground(near_[place]);
}

void FaceWalk::ground(std::size_t row) {
  if (std::find(grounded_.begin(), grounded_.end(), row) != grounded_.end()) return;
  if (grounded_.size() == grounded_.capacity()) {
    degenerate_ = true;
  } else {
    grounded_.push_back(row);
  }
}

// The rows that the whole direction takes to the other side, and where.
void FaceWalk::collect_crossings(double limit) {
  n_crossings_ = fastest<sign_changes>(n_near_, limit, z_.data(), along_.data(), crossings_.data());
  for (std::size_t i = 0; i < n_crossings_; ++i) {
    const std::size_t place = crossings_[i];
    at_[place] = -z_[place] / along_[place];
  }
  for (const std::size_t row : grounded_) {
    const std::size_t place = place_in(near_, n_near_, row);
    const bool leaves = face_.side(row) == Side::kActive ? along_[place] < 0.0 : along_[place] > 0.0;
    if (!leaves) continue;
    at_[place] = 0.0;
    crossings_[n_crossings_++] = static_cast<Row>(place);
  }
}

// Moves the rows that were passed to their new side, and the one at the stop to its kink; true if there were any.
bool FaceWalk::change_sides(const Stop& stop) {
  bool changed = stop.kinked;
  if (stop.kinked) {
    face_.move(near_[stop.place], Side::kKink);
    if (fresh_.size() < fresh_.capacity()) fresh_.push_back(near_[stop.place]);
    z_[stop.place] = 0.0;
  }
  const auto gone = [&](std::size_t row) { return z_[place_in(near_, n_near_, row)] != 0.0 || face_.side(row) == Side::kKink; };
  grounded_.erase(std::remove_if(grounded_.begin(), grounded_.end(), gone), grounded_.end());
  for (std::size_t i = 0; i < n_crossings_; ++i) {
    const std::size_t place = crossings_[i], row = near_[place];
    if (face_.side(row) == Side::kKink) continue;
    if (at_[place] < stop.at) {
      face_.move(row, face_.side(row) == Side::kActive ? Side::kInactive : Side::kActive);
      changed = true;
    }
    keep_on_side(place);
  }
  return changed;
}

// The slope along the direction, c + d tau without the crossings, jumps up at each of them. The one at which it changes
// sign is found by bisection of the crossings.
FaceWalk::Stop FaceWalk::lowest(const Programme& programme, double curvature, double limit) {
  double constant = -curvature, linear = curvature;
  Row* first = crossings_.data();
  Row* last = first + n_crossings_;
  const auto pass = [&](std::size_t place, double& c, double& d) {
    const double along = along_[place];
    const double bend = 2.0 * programme.curvature * along * along;
    const double change = face_.side(near_[place]) == Side::kActive ? -bend : bend;
    c += programme.slope[near_[place]] * std::fabs(along) - change * at_[place];
    d += change;
  };
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
  // Beyond the last crossing the direction was not looked at.
  const double at = linear > 0.0 ? std::min(-constant / linear, limit) : limit;
  return {at, false, 0};
}

// Lets go the rows that are held against their will; false if there are none.
bool FaceWalk::release(const Programme& programme) {
  const double hessian = 2.0 * (programme.gamma + programme.curvature);
  const std::size_t columns = design_.columns();
  const double noise = kTolerance * (hessian * max_abs(face_.v(), columns) + max_abs(programme.linear, columns));
  double worst = noise;
  released_.clear();
  for (std::size_t i = 0; i < face_.kinks().size(); ++i) {
    const std::size_t j = face_.kinks()[i];
    const double below = -face_.force(i), above = face_.force(i) - programme.slope[j];
    const double wrong = std::max(below, above);
    if (wrong <= noise || std::find(fresh_.begin(), fresh_.end(), j) != fresh_.end()) continue;
    released_.push_back({j, above > below ? Side::kActive : Side::kInactive});
    if (wrong > worst) {
      worst = wrong;
      std::swap(released_.front(), released_.back());
    }
  }
  for (const Release& release : released_) {
    face_.move(release.row, release.side);
    ground(release.row);
  }
  return !released_.empty();
}

// Rows that were let go together may turn out to move to the wrong side: they are held again. Each time there is one row
// less of them, and a single one stays.
bool FaceWalk::settle_releases(const double* v) {
  do {
    if (!face_.minimise()) return false;
  } while (hold_wrong_releases(v));
  return true;
}

// True if there were any. The first one, which was held most against its will, moves to its side if it is alone.
bool FaceWalk::hold_wrong_releases(const double* v) {
  const std::size_t columns = design_.columns();
  for (std::size_t k = 0; k < columns; ++k) direction_[k] = face_.v()[k] - v[k];
  const auto wrong = [&](const Release& release) {
    const double along = dot(design_.row(release.row), direction_.data(), columns);
    return release.side == Side::kActive ? along <= 0.0 : along >= 0.0;
  };
  if (released_.size() < 2) return false;
  const bool all = wrong(released_.front());
  std::size_t kept = 1;
  bool held = false;
  for (std::size_t i = 1; i < released_.size(); ++i) {
    if (all || wrong(released_[i])) {
      face_.move(released_[i].row, Side::kKink);
      grounded_.erase(std::remove(grounded_.begin(), grounded_.end(), released_[i].row), grounded_.end());
      held = true;
    } else {
      released_[kept++] = released_[i];
    }
  }
  released_.resize(kept);
  return held;
}

}  // namespace dconnet
