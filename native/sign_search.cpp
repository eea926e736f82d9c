#include "sign_search.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <tuple>

namespace dconnet {

namespace {

constexpr double kSlack = 1e-9;      // by how much rows, of a range of about one, may be violated
constexpr double kWhole = 1e-7;      // how near to a multiple of its step a value counts as one
constexpr double kWorthwhile = 1e-3; // share of its range by which a bound must move to be moved at all
constexpr double kReached = 0.2;     // an end of a range is good enough if a point comes this near to it, in ranges
constexpr int kPasses = 3;
constexpr int kNarrowing = 2;        // ranges are narrowed by programmes at every second depth
constexpr int kStarts = 16;
constexpr int kAscents = 20;
constexpr std::size_t kAscentNodes = 32;  // an ascent from the point of every 32nd node

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

SignSearch::SignSearch(const double* G, const double* g, const double* alpha, const double* slopes, const double* low,
                       const double* high, const double* step, std::size_t neurons, std::size_t constraints,
                       std::size_t columns)
    : relaxation_(G, g, neurons + constraints, columns),
      alpha_(alpha, alpha + neurons),
      slopes_(slopes, slopes + columns),
      root_low_(low, low + columns + neurons + constraints),
      root_high_(high, high + columns + neurons + constraints),
      step_(step, step + columns + neurons + constraints),
      neurons_(neurons),
      columns_(columns),
      best_x_(columns, 0.0),
      x_(columns, 0.0),
      least_(neurons, 0.0),
      most_(neurons, 0.0),
      random_(0) {
  open_.push_back({std::numeric_limits<double>::infinity(), 0, {}});
}

double SignSearch::cutoff() const {
  if (!has_point()) return best_;
  return best_ + std::max(relative_gap_ * std::fabs(best_ + offset_), absolute_gap_);
}

double SignSearch::bound() const {
  const double open = open_.empty() ? -std::numeric_limits<double>::infinity() : open_.front().bound;
  return std::max({best_, closed_, open});
}

// The argument of a neuron, or the value of a constraint.
double SignSearch::row_value(std::size_t r, const std::vector<double>& x) const {
  const double* w = relaxation_.row(r);
  double z = relaxation_.shift(r);
  for (std::size_t i = 0; i < columns_; ++i) z += w[i] * x[i];
  return z;
}

// The least and the largest value of a row for the ranges of the variables.
std::pair<double, double> SignSearch::row_range(std::size_t r) const {
  const double* w = relaxation_.row(r);
  double least = relaxation_.shift(r), most = least;
  for (std::size_t i = 0; i < columns_; ++i) {
    least += w[i] * (w[i] > 0.0 ? relaxation_.low[i] : relaxation_.high[i]);
    most += w[i] * (w[i] > 0.0 ? relaxation_.high[i] : relaxation_.low[i]);
  }
  return {least, most};
}

double SignSearch::value(const std::vector<double>& x) const {
  double sum = 0.0;
  for (std::size_t i = 0; i < columns_; ++i) sum += slopes_[i] * x[i];
  for (std::size_t l = 0; l < neurons_; ++l) sum += alpha_[l] * std::max(row_value(l, x), 0.0);
  return sum;
}

// Keep a point if it is feasible and better than the best one.
void SignSearch::try_point(const std::vector<double>& candidate) {
  std::vector<double> x = candidate;
  for (std::size_t i = 0; i < columns_; ++i) {
    if (step_[i] <= 0.0) continue;
    const double whole = std::round(x[i] / step_[i]) * step_[i];
    if (std::fabs(whole - x[i]) > kWhole * std::max(1.0, step_[i])) return;
    x[i] = whole;
  }
  for (std::size_t r = neurons_; r < relaxation_.rows(); ++r) {
    const std::size_t j = columns_ + r;
    const double sum = row_value(r, x);
    if (sum < root_low_[j] - kSlack || sum > root_high_[j] + kSlack) return;
    if (step_[j] > 0.0 && std::fabs(std::round(sum / step_[j]) * step_[j] - sum) > kWhole * step_[j]) return;
  }
  const double reached = value(x);
  if (reached <= best_) return;
  best_ = reached;
  best_x_ = x;
}

// From a point uphill: the convex neurons replaced by their tangents, which lie below them, as often as it helps.
void SignSearch::ascend(std::vector<double> x) {
  relaxation_.low = root_low_;
  relaxation_.high = root_high_;
  double reached = -std::numeric_limits<double>::infinity();
  for (int round = 0; round < kAscents; ++round) {
    relax();
    for (std::size_t l = 0; l < neurons_; ++l) {
      if (!is_convex(l)) continue;
      const std::size_t j = columns_ + l;
      relaxation_.constant[j] = 0.0;
      relaxation_.left[j] = relaxation_.right[j] = row_value(l, x) > 0.0 ? alpha_[l] : 0.0;
    }
    if (relaxation_.solve(-std::numeric_limits<double>::infinity()) != Relaxation::End::optimal) return;
    relaxation_.point(x.data());
    try_point(x);
    const double next = value(x);
    if (next <= reached + 1e-9 * std::fabs(next)) return;
    reached = next;
  }
}

void SignSearch::begin() {
  begun_ = true;
  std::vector<double> x(columns_);
  for (int start = 0; start < kStarts; ++start) {
    for (std::size_t i = 0; i < columns_; ++i) {
      x[i] = root_low_[i] + random_.uniform() * (root_high_[i] - root_low_[i]);
    }
    ascend(x);
  }
}

// Objectives of the neurons for the ranges that they have now.
void SignSearch::relax() {
  for (std::size_t i = 0; i < columns_; ++i) relaxation_.left[i] = relaxation_.right[i] = slopes_[i];
  for (std::size_t l = 0; l < neurons_; ++l) {
    const std::size_t j = columns_ + l;
    const double low = relaxation_.low[j], high = relaxation_.high[j];
    relaxation_.constant[j] = 0.0;
    relaxation_.left[j] = 0.0;
    relaxation_.right[j] = alpha_[l];
    if (!is_convex(l)) continue;
    if (low >= 0.0) {
      relaxation_.left[j] = alpha_[l];
    } else if (high <= 0.0) {
      relaxation_.right[j] = 0.0;
    } else {
      relaxation_.left[j] = relaxation_.right[j] = alpha_[l] * high / (high - low);
      relaxation_.constant[j] = -relaxation_.left[j] * low;
    }
  }
}

void SignSearch::load(const Node& node) {
  relaxation_.low = root_low_;
  relaxation_.high = root_high_;
  for (const Decision& decision : node.decisions) {
    double& end = decision.upper ? relaxation_.high[decision.variable] : relaxation_.low[decision.variable];
    end = decision.upper ? std::min(end, decision.value) : std::max(end, decision.value);
  }
}

// Interval arithmetic on one row, both ways; false if it cannot be met.
bool SignSearch::tighten_row(std::size_t r, bool& changed) {
  const std::size_t j = columns_ + r;
  const double* row = relaxation_.row(r);
  auto& low = relaxation_.low;
  auto& high = relaxation_.high;
  auto [least, most] = row_range(r);
  if (least > high[j] + kSlack || most < low[j] - kSlack) return false;
  const bool binds_above = most > high[j], binds_below = least < low[j];
  low[j] = std::min(std::max(low[j], least), high[j]);
  high[j] = std::max(std::min(high[j], most), low[j]);
  if (!binds_above && !binds_below) return true;
  for (std::size_t i = 0; i < columns_; ++i) {
    const double w = row[i], range = high[i] - low[i];
    if (std::fabs(w) < 1e-7 || range <= 0.0) continue;
    // What the others leave for this one.
    const double over = binds_above ? (high[j] + kSlack - least) / std::fabs(w) : range;
    const double under = binds_below ? (most - low[j] + kSlack) / std::fabs(w) : range;
    const double up = w > 0.0 ? over : under, down = w > 0.0 ? under : over;
    if (std::min(up, down) >= range * (1.0 - kWorthwhile)) continue;
    const double new_high = std::min(high[i], low[i] + up), new_low = std::max(low[i], high[i] - down);
    double floor = new_low, ceiling = new_high;
    if (step_[i] > 0.0) {
      floor = std::ceil(floor / step_[i] - kWhole) * step_[i];
      ceiling = std::floor(ceiling / step_[i] + kWhole) * step_[i];
    }
    if (floor > ceiling + kSlack) return false;
    low[i] = std::min(floor, ceiling);
    high[i] = std::max(floor, ceiling);
    changed = true;
    std::tie(least, most) = row_range(r);
  }
  return true;
}

bool SignSearch::propagate() {
  for (int pass = 0; pass < kPasses; ++pass) {
    bool changed = false;
    for (std::size_t r = 0; r < relaxation_.rows(); ++r) {
      if (!tighten_row(r, changed)) return false;
    }
    if (!changed) break;
  }
  return true;
}

// The arguments of the neurons at the point of the last programme: their ranges reach at least so far.
void SignSearch::note_reach(bool first) {
  relaxation_.point(x_.data());
  for (std::size_t l = 0; l < neurons_; ++l) {
    const double z = row_value(l, x_);
    least_[l] = first ? z : std::min(least_[l], z);
    most_[l] = first ? z : std::max(most_[l], z);
  }
}

// The lower or the upper end of the range of a neuron by a linear programme; false if the part is empty.
bool SignSearch::narrow_end(std::size_t l, bool upper) {
  const std::size_t j = columns_ + l;
  double& low = relaxation_.low[j];
  double& high = relaxation_.high[j];
  const double enough = std::max(kReached * (high - low), kSlack);
  if (upper ? most_[l] >= high - enough : least_[l] <= low + enough) return true;
  relaxation_.left[j] = relaxation_.right[j] = upper ? 1.0 : -1.0;
  const Relaxation::End end = relaxation_.solve(-std::numeric_limits<double>::infinity());
  const double farthest = relaxation_.bound() + kSlack;
  relaxation_.left[j] = relaxation_.right[j] = 0.0;
  if (end == Relaxation::End::infeasible) return false;
  if (end == Relaxation::End::optimal) note_reach(false);
  if (upper) {
    high = std::max(std::min(high, farthest), low);
  } else {
    low = std::min(std::max(low, -farthest), high);
  }
  return true;
}

// Ranges of the neurons that may be branched upon, over the whole part with its signs: interval arithmetic sees only
// one row at a time. They hold for all that comes from the part. False if the part is empty.
bool SignSearch::narrow(Node& node) {
  for (auto* each : {&relaxation_.constant, &relaxation_.left, &relaxation_.right}) {
    std::fill(each->begin(), each->end(), 0.0);
  }
  for (std::size_t l = 0; l < neurons_; ++l) {
    const std::size_t j = columns_ + l;
    if (!is_convex(l) || relaxation_.low[j] >= 0.0 || relaxation_.high[j] <= 0.0) continue;
    if (!narrow_end(l, false) || !narrow_end(l, true)) return false;
  }
  if (!propagate()) return false;
  node.decisions.clear();
  for (std::uint32_t j = 0; j < relaxation_.variables(); ++j) {
    if (relaxation_.low[j] > root_low_[j]) node.decisions.push_back({j, 0, relaxation_.low[j]});
    if (relaxation_.high[j] < root_high_[j]) node.decisions.push_back({j, 1, relaxation_.high[j]});
  }
  return true;
}

void SignSearch::close(double bound) { closed_ = std::max(closed_, bound); }

// Signs that cannot lead above the cutoff by the multipliers alone become decisions; returns the better bound.
double SignSearch::fixed_signs(Node& node, double bound) {
  for (std::size_t l = 0; l < neurons_; ++l) {
    const std::size_t j = columns_ + l;
    const double low = relaxation_.low[j], high = relaxation_.high[j];
    if (low >= 0.0 || high <= 0.0) continue;
    const double rest = bound - relaxation_.conjugate[j];
    const double off = rest + relaxation_.conjugate_of(j, 0.0, 0.0, low, 0.0);
    const double on = rest + relaxation_.conjugate_of(j, 0.0, alpha_[l], 0.0, high);
    const bool drop_off = off <= cutoff(), drop_on = on <= cutoff();
    if (drop_off && drop_on) {
      close(std::max(off, on));
      return -std::numeric_limits<double>::infinity();
    }
    if (!drop_off && !drop_on) continue;
    close(drop_off ? off : on);
    node.decisions.push_back({static_cast<std::uint32_t>(j), static_cast<std::int8_t>(drop_on), 0.0});
    (drop_on ? relaxation_.high[j] : relaxation_.low[j]) = 0.0;
  }
  return bound;
}

// Split the part that the relaxation was solved for; false if there is nothing to split.
bool SignSearch::branch(Node& node, double bound, bool solved) {
  std::size_t chosen = relaxation_.variables();
  std::size_t spare = chosen;
  double most = 1e-12 * std::max(1.0, std::fabs(bound)), place = 0.0, widest = 0.0;
  for (std::size_t l = 0; l < neurons_; ++l) {
    const std::size_t j = columns_ + l;
    const double low = relaxation_.low[j], high = relaxation_.high[j];
    if (!is_convex(l) || low >= 0.0 || high <= 0.0) continue;
    const double z = row_value(l, x_);
    const double excess = alpha_[l] * (high * (z - low) / (high - low) - std::max(z, 0.0));
    if (excess > most) {
      most = excess;
      chosen = j;
    }
    const double possible = -alpha_[l] * high * low / (high - low);
    if (possible > widest) {
      widest = possible;
      spare = j;
    }
  }
  // Where the relaxation was not solved to the end, its point may show no excess although the bound is not met.
  if (chosen == relaxation_.variables() && !solved) chosen = spare;
  double lower_end = 0.0, upper_end = 0.0;
  if (chosen == relaxation_.variables()) {
    double furthest = kWhole;
    for (std::size_t j = 0; j < relaxation_.variables(); ++j) {
      if (step_[j] <= 0.0) continue;
      const double v = j < columns_ ? x_[j] : row_value(j - columns_, x_);
      const double distance = std::fabs(v / step_[j] - std::round(v / step_[j]));
      if (distance > furthest) {
        furthest = distance;
        chosen = j;
        place = std::floor(v / step_[j]);
      }
    }
    if (chosen == relaxation_.variables()) return false;
    lower_end = place * step_[chosen];
    upper_end = (place + 1.0) * step_[chosen];
  }
  double below = bound, above = bound;
  if (chosen >= columns_ && chosen < columns_ + neurons_) {
    const double rest = bound - relaxation_.conjugate[chosen], a = alpha_[chosen - columns_];
    below = std::min(bound, rest + relaxation_.conjugate_of(chosen, 0.0, 0.0, relaxation_.low[chosen], 0.0));
    above = std::min(bound, rest + relaxation_.conjugate_of(chosen, 0.0, a, 0.0, relaxation_.high[chosen]));
  }
  const auto variable = static_cast<std::uint32_t>(chosen);
  ++node.depth;
  Node other = node;
  const bool go_below = below > above;
  other.bound = go_below ? above : below;
  other.decisions.push_back({variable, static_cast<std::int8_t>(!go_below), go_below ? upper_end : lower_end});
  node.bound = go_below ? below : above;
  node.decisions.push_back({variable, static_cast<std::int8_t>(go_below), go_below ? lower_end : upper_end});
  (go_below ? relaxation_.high : relaxation_.low)[chosen] = go_below ? lower_end : upper_end;
  if (other.bound <= cutoff()) {
    close(other.bound);
  } else {
    open_.push_back(std::move(other));
    std::push_heap(open_.begin(), open_.end());
  }
  return true;
}

// The relaxation of the part that is loaded, solved; false if the part is empty or done with, else its bound is set.
bool SignSearch::settle(const Node& node, double& bound) {
  relax();
  if (relaxation_.solve(cutoff()) == Relaxation::End::infeasible) return false;
  bound = std::min(node.bound, relaxation_.bound());
  relaxation_.point(x_.data());
  if (bound > cutoff()) return true;
  close(bound);
  return false;
}

// From a node down, always to the child with the larger bound, until that is settled.
void SignSearch::dive(Node node) {
  load(node);
  while (true) {
    ++nodes_;
    double bound = node.bound;
    if (!propagate() || !settle(node, bound)) return;
    try_point(x_);
    if (nodes_ % kAscentNodes == 1) {
      const std::vector<double> low = relaxation_.low, high = relaxation_.high;
      ascend(x_);
      relaxation_.low = low;
      relaxation_.high = high;
      if (!settle(node, bound)) return;
    }
    // With more columns than rows, as in hulls of data, these programmes cost more than they save.
    if (columns_ <= relaxation_.rows() && node.depth % kNarrowing == 0) {
      note_reach(true);
      if (!narrow(node) || !settle(node, bound)) return;
      try_point(x_);
    }
    if (bound <= cutoff()) return close(bound);
    bound = fixed_signs(node, relaxation_.bound());
    if (bound <= cutoff()) return;
    bound = std::min(node.bound, bound);
    if (!branch(node, bound, bound <= value(x_) + (cutoff() - best_))) return close(bound);
    if (node.bound <= cutoff()) return close(node.bound);
  }
}

bool SignSearch::run(double seconds, double relative_gap, double absolute_gap, double offset) {
  relative_gap_ = relative_gap;
  absolute_gap_ = absolute_gap;
  offset_ = offset;
  const double deadline = now() + seconds;
  if (!begun_) begin();
  while (!open_.empty() && open_.front().bound > cutoff()) {
    if (now() > deadline) return false;
    std::pop_heap(open_.begin(), open_.end());
    Node node = std::move(open_.back());
    open_.pop_back();
    dive(std::move(node));
  }
  for (const Node& node : open_) close(node.bound);
  open_.clear();
  return true;
}

}  // namespace dconnet
