#include "face_walk.hpp"

#include <algorithm>
#include <cmath>

namespace dconnet {

namespace {

// Rows this close to their kink, as a fraction of |q_j| |v|, are held there at the start: their z is rounded with that.
constexpr double kKinkTolerance = 1e-12;
// A row stays on its side unless it is wrong by more than this fraction of the largest value.
constexpr double kTolerance = 1e-13;
// Less than this fraction of the start, or of what the linear term calls for, is zero.
constexpr double kZero = 1e-12;
// Rows are released together whose forces are outside of their bounds by at least this share of the worst. Smaller violations
// often vanish once the worst rows are released; with .3 or .5 a tenth of the steps is saved, with 1 there are more.
constexpr double kWorthReleasing = 0.5;
// Steps between calls of `proceed`: a step takes at least some microseconds, and rarely some milliseconds.
constexpr std::size_t kStepsBetweenChecks = 16;
// A stop is searched among the listed rows, then among those a little ahead, and then among those of the whole direction.
constexpr int kSearches = 3;

}  // namespace

FaceWalk::FaceWalk(const Design& design, Face& face, Scratch& scratch, Team* team)
    : design_(design),
      face_(face),
      scratch_(scratch),
      sides_(design.rows()),
      screen_(design, scratch, team),
      crossings_(design.rows(), scratch.slopes),
      direction_(design.stride()),
      clipped_(design.stride()) {
  fresh_.reserve(design.columns());
  released_.reserve(design.columns());
  grounded_.reserve(most_grounded());
}

bool FaceWalk::solve(const Programme& programme, std::size_t max_steps, bool resume, const Iterate& at,
                     ActiveGram& gram, std::size_t& steps, const Enough& enough) {
  ended_early_ = out_of_steps_ = false;
  bounding_ = enough.wanted();
  bound_ = -INFINITY;
  grounded_.clear();
  fresh_.clear();
  degenerate_ = false;
  last_move_ = 0.0;
  screen_.begin();
  const double called_for =
      max_abs(programme.linear, design_.columns()) / (2.0 * (programme.gamma + programme.curvature));
  noise_ = kZero * std::max(max_abs(at.v, design_.columns()), called_for);
  if (resume) {
    face_.resume(programme);
  } else if (!start(programme, at, gram)) {
    return false;
  }
  for (std::size_t i = 0; !degenerate_; ++i) {
    if (i == max_steps) {
      out_of_steps_ = true;
      break;
    }
    if (i % kStepsBetweenChecks == kStepsBetweenChecks - 1 && proceed_ && !(*proceed_)()) break;
    ++steps;
    if (!face_.minimise()) break;
    if (bounding_ && enough.is_reached(face_.value(at.v), bound_)) {
      leave_start(programme, at);
      return ended_early_ = true;
    }
    bool released = release(programme);
    if (!released && leads_to_zero(at.v)) {
      fresh_.clear();
      released = release(programme);
    }
    if (released && !settle_releases(at.v)) break;
    if (step(programme, at)) continue;
    fresh_.clear();
    if (released || release(programme)) continue;
    std::copy(face_.v(), face_.v() + design_.columns(), at.v);
    screen_.apply(at.v, at.z);
    face_.multipliers(at.z, at.multipliers);
    return true;
  }
  if (screen_.moved()) leave_start(programme, at);
  return false;
}

// What belongs to the point where the walk ended, which may be far from the start.
void FaceWalk::leave_start(const Programme& programme, const Iterate& at) const {
  screen_.apply(at.v, at.z);
  for (std::size_t j = 0; j < design_.rows(); ++j) {
    at.multipliers[j] = at.z[j] > 0.0 ? programme.slope[j] + 2.0 * programme.curvature * at.z[j] : 0.0;
  }
}

bool FaceWalk::start(const Programme& programme, const Iterate& at, ActiveGram& gram) {
  const double rounding = kKinkTolerance * std::sqrt(dot(at.v, at.v, design_.columns()));
  for (std::size_t j = 0; j < design_.rows(); ++j) {
    const double noise = rounding * screen_.norms()[j];
    const bool is_held = std::fabs(at.z[j]) <= noise && (programme.is_convex || programme.slope[j] > 0.0);
    sides_[j] = is_held ? Side::kKink : (at.z[j] > 0.0 ? Side::kActive : Side::kInactive);
  }
  return face_.enter(programme, sides_.data(), gram, scratch_.along.data());
}

// Goes towards the minimiser on the face; true if that led to another face.
bool FaceWalk::step(const Programme& programme, const Iterate& at) {
  const std::size_t columns = design_.columns();
  for (std::size_t k = 0; k < columns; ++k) direction_[k] = face_.v()[k] - at.v[k];
  if (max_abs(direction_.data(), columns) <= kTolerance * max_abs(at.v, columns)) return false;
  const Stop stop = search(programme, at);
  if (bounding_ && whole_way_) bound_ = std::max(bound_, lower_bound(programme));
  for (std::size_t k = 0; k < columns; ++k) at.v[k] += stop.at * direction_[k];
  if (max_abs(at.v, columns) <= noise_) return end_at_zero(at.v);
  screen_.advance(stop.at);
  last_move_ = stop.at * std::sqrt(dot(direction_.data(), direction_.data(), columns));
  return change_sides(stop) || degenerate_;
}

// Where v itself is the only free direction, and the minimiser behind zero.
bool FaceWalk::leads_to_zero(const double* v) const {
  return face_.kinks().size() + 1 == design_.columns() && dot(face_.v(), v, design_.columns()) <= 0.0;
}

// At zero all rows meet.
bool FaceWalk::end_at_zero(double* v) {
  std::fill(v, v + design_.columns(), 0.0);
  screen_.invalidate();
  degenerate_ = true;
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
  for (std::size_t i = 0; i < crossings_.count(); ++i) {
    const std::size_t place = crossings_.place(i), row = screen_.row(place);
    if (face_.side(row) != Side::kActive) continue;
    const double there = screen_.z(place) + screen_.along(place);
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

// Searches for the stop as far as the list of rows reaches, and lists more rows where that is not enough.
Stop FaceWalk::search(const Programme& programme, const Iterate& at) {
  const double curvature = face_.curvature_along(direction_.data());
  screen_.shorten(last_move_, at.v);
  double limit = screen_.length_within_reach(at.v, direction_.data());
  bool whole = false;
  for (int search = 0; search < kSearches; ++search) {
    if (limit > 0.0) {
      screen_.update_along(direction_.data());
      for (const std::size_t row : face_.kinks()) screen_.along(screen_.place_of(row)) = 0.0;  // exactly
      collect_crossings(limit);
      const Stop stop = crossings_.lowest(programme, face_, screen_.places(), curvature, limit);
      whole_way_ = limit >= 1.0;
      if (stop.at < limit || whole_way_) return stop;
      whole = true;
    }
    screen_.list_rows(last_move_, whole, at.v, direction_.data(), face_.kinks(), grounded_, at.z);
    for (std::size_t i = 0; i < screen_.count(); ++i) keep_on_side(i);
    limit = screen_.length_within_reach(at.v, direction_.data());
  }
  // Reached only if lengths are NaN.
  degenerate_ = true;
  crossings_.clear();
  return {0.0, false, 0};
}

// Rounding must not leave a row on the other side of its kink.
void FaceWalk::keep_on_side(std::size_t place) {
  const Side side = face_.side(screen_.row(place));
  if (side == Side::kKink || (side == Side::kActive ? screen_.z(place) > 0.0 : screen_.z(place) < 0.0)) return;
  screen_.z(place) = 0.0;
  ground(screen_.row(place));
}

void FaceWalk::ground(std::size_t row) {
  if (std::find(grounded_.begin(), grounded_.end(), row) != grounded_.end()) return;
  if (grounded_.size() == most_grounded()) {
    degenerate_ = true;
  } else {
    grounded_.push_back(row);
  }
}

// The rows that the whole direction takes to the other side, and those at zero that leave it at once.
void FaceWalk::collect_crossings(double limit) {
  crossings_.collect(screen_.places(), limit);
  for (const std::size_t row : grounded_) {
    const std::size_t place = screen_.place_of(row);
    const bool leaves = face_.side(row) == Side::kActive ? screen_.along(place) < 0.0 : screen_.along(place) > 0.0;
    if (leaves) crossings_.add_at_start(place);
  }
}

// Moves the rows that were passed to their new side, and the one at the stop to its kink; true if there were any.
bool FaceWalk::change_sides(const Stop& stop) {
  bool changed = stop.kinked;
  if (stop.kinked) {
    face_.move(screen_.row(stop.place), Side::kKink);
    if (fresh_.size() < design_.columns()) fresh_.push_back(screen_.row(stop.place));
    screen_.z(stop.place) = 0.0;
  }
  const auto gone = [&](std::size_t row) { return screen_.z(screen_.place_of(row)) != 0.0 || face_.side(row) == Side::kKink; };
  grounded_.erase(std::remove_if(grounded_.begin(), grounded_.end(), gone), grounded_.end());
  for (std::size_t i = 0; i < crossings_.count(); ++i) {
    const std::size_t place = crossings_.place(i), row = screen_.row(place);
    if (face_.side(row) == Side::kKink) continue;
    if (crossings_.at(place) < stop.at) {
      face_.move(row, face_.side(row) == Side::kActive ? Side::kInactive : Side::kActive);
      changed = true;
    }
    keep_on_side(place);
  }
  return changed;
}

// By how much the force on a held row is outside of its bounds, and the side to which the row would go.
FaceWalk::Release FaceWalk::release_of(const Programme& programme, std::size_t kink) const {
  const std::size_t row = face_.kinks()[kink];
  const double below = -face_.force(kink), above = face_.force(kink) - programme.slope[row];
  return {row, above > below ? Side::kActive : Side::kInactive, std::max(below, above)};
}

// Releases the rows whose forces are furthest outside of their bounds, the worst one first; false if there are none.
bool FaceWalk::release(const Programme& programme) {
  const double hessian = 2.0 * (programme.gamma + programme.curvature);
  const std::size_t columns = design_.columns();
  const double noise = kTolerance * (hessian * max_abs(face_.v(), columns) + max_abs(programme.linear, columns));
  released_.clear();
  for (std::size_t i = 0; i < face_.kinks().size(); ++i) {
    const Release candidate = release_of(programme, i);
    if (candidate.wrong <= noise || std::find(fresh_.begin(), fresh_.end(), candidate.row) != fresh_.end()) continue;
    released_.push_back(candidate);
    if (candidate.wrong > released_.front().wrong) std::swap(released_.front(), released_.back());
  }
  const double worst = released_.empty() ? 0.0 : released_.front().wrong;
  const auto is_minor = [&](const Release& candidate) { return candidate.wrong < kWorthReleasing * worst; };
  released_.erase(std::remove_if(released_.begin(), released_.end(), is_minor), released_.end());
  for (const Release& release : released_) {
    face_.move(release.row, release.side);
    ground(release.row);
  }
  return !released_.empty();
}

// Rows that were released together may move to the wrong side: they are held again. Each round has fewer of them, and a single
// one stays released.
bool FaceWalk::settle_releases(const double* v) {
  do {
    if (!face_.minimise()) return false;
  } while (hold_wrong_releases(v));
  return true;
}

// True if there were any. The first one, with the worst force, moves to its side if it is alone.
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
