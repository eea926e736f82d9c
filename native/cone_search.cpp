#include "cone_search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dense.hpp"

namespace dconnet {

namespace {

// Tangents of the concave rows that are tried for each part.
constexpr int kTangents = 3;
// Parts between two calls of `proceed`.
constexpr std::size_t kLook = 64;

double norm(const double* x, std::size_t n) { return std::sqrt(dot(x, x, n)); }

}  // namespace

ConeSearch::ConeSearch(const double* Q, const double* r, std::size_t rows, std::size_t columns)
    : rows_(rows),
      columns_(columns),
      Q_(rows * columns),
      r_(r, r + rows),
      best_v_(columns),
      G_(columns * columns),
      parent_G_(columns * columns),
      gram_(columns * columns),
      all_(columns, std::vector<double>(rows)),
      slopes_(rows) {
  for (std::size_t j = 0; j < rows; ++j) {
    for (std::size_t k = 0; k < columns; ++k) Q_[k * rows + j] = Q[j * columns + k];
  }
  best_v_[0] = 1.0;
  for (Rows* each : {&of_parent_, &of_part_}) {
    each->active.resize(columns);
    each->weights.resize(rows);
    each->values.assign(columns, std::vector<double>(rows));
  }
}

void ConeSearch::Rows::clear() {
  std::fill(active.begin(), active.end(), 0.0);
  count = 0;
}

template <typename Value>
void ConeSearch::Rows::add(double weight, const Value& value) {
  const std::size_t columns = active.size();
  double low = value(0), high = low;
  for (std::size_t i = 1; i < columns; ++i) {
    low = std::min(low, value(i));
    high = std::max(high, value(i));
  }
  if (high <= 0.0) return;
  if (low >= 0.0) {
    for (std::size_t i = 0; i < columns; ++i) active[i] += weight * value(i);
  } else {
    weights[count] = weight;
    for (std::size_t i = 0; i < columns; ++i) values[i][count] = value(i);
    ++count;
  }
}

void ConeSearch::try_point(const double* v) {
  const double length = norm(v, columns_);
  if (!(length > 0.0)) return;
  double value = 0.0;
  for (std::size_t j = 0; j < rows_; ++j) {
    double z = 0.0;
    for (std::size_t k = 0; k < columns_; ++k) z += Q_[k * rows_ + j] * v[k];
    value += r_[j] * std::max(z, 0.0);
  }
  value = std::abs(value) / length;
  if (!(value > best_)) return;
  best_ = value;
  for (std::size_t k = 0; k < columns_; ++k) best_v_[k] = v[k] / length;
}

double ConeSearch::cutoff() const { return std::max(best_ * (1.0 + relative_gap_), enough_); }

double ConeSearch::bound() const {
  if (!begun_) return std::numeric_limits<double>::infinity();
  const double waiting = open_.empty() ? 0.0 : open_.top().bound;
  return std::max({best_, closed_, waiting});
}

bool ConeSearch::run(double relative_gap, double enough, std::size_t most_parts, std::size_t most_waiting,
                     const std::function<bool()>& proceed) {
  relative_gap_ = relative_gap;
  enough_ = enough;
  if (!begun_) begin();
  for (std::size_t count = 0; !open_.empty() && open_.top().bound > cutoff(); ++count) {
    if (n_parts_ >= most_parts || open_.size() >= most_waiting || (count % kLook == 0 && !proceed())) return false;
    const Part part = open_.top();
    open_.pop();
    split(part);
  }
  return true;
}

// The orthants.
void ConeSearch::begin() {
  begun_ = true;
  for (unsigned orthant = 0; orthant < (1u << columns_); ++orthant) {
    std::fill(G_.begin(), G_.end(), 0.0);
    for (std::size_t i = 0; i < columns_; ++i) G_[i * columns_ + i] = (orthant >> i) & 1u ? -1.0 : 1.0;
    read(G_.data());
    std::swap(of_parent_, of_part_);
    settle(3u, std::numeric_limits<double>::infinity());
  }
}

void ConeSearch::split(const Part& part) {
  const double* directions = pool_.data() + part.place * columns_ * columns_;
  std::copy(directions, directions + columns_ * columns_, parent_G_.begin());
  free_.push_back(part.place);
  read(parent_G_.data());
  std::size_t first = 0, second = 1;
  double least = 2.0;
  for (std::size_t i = 0; i < columns_; ++i) {
    for (std::size_t k = i + 1; k < columns_; ++k) {
      const double cosine = dot(&parent_G_[i * columns_], &parent_G_[k * columns_], columns_);
      if (cosine < least) {
        least = cosine;
        first = i;
        second = k;
      }
    }
  }
  double middle[kMostColumns];
  for (std::size_t k = 0; k < columns_; ++k) {
    middle[k] = parent_G_[first * columns_ + k] + parent_G_[second * columns_ + k];
  }
  const double length = norm(middle, columns_);
  for (std::size_t k = 0; k < columns_; ++k) middle[k] /= length;
  halve(second, first, middle, length);
  settle(part.signs, part.bound);
  halve(first, second, middle, length);
  settle(part.signs, part.bound);
}

// The rows of a part of which only the directions are known.
void ConeSearch::read(const double* directions) {
  for (std::size_t i = 0; i < columns_; ++i) {
    std::vector<double>& z = all_[i];
    std::fill(z.begin(), z.end(), 0.0);
    for (std::size_t k = 0; k < columns_; ++k) {
      const double g = directions[i * columns_ + k];
      const double* column = &Q_[k * rows_];
      for (std::size_t j = 0; j < rows_; ++j) z[j] += g * column[j];
    }
  }
  of_parent_.clear();
  for (std::size_t j = 0; j < rows_; ++j) {
    if (r_[j] != 0.0) of_parent_.add(r_[j], [&](std::size_t i) { return all_[i][j]; });
  }
}

// The half of the parent that has a new direction, of which the sum before it had this length, in the place of another.
void ConeSearch::halve(std::size_t kept, std::size_t replaced, const double* middle, double length) {
  std::copy(parent_G_.begin(), parent_G_.end(), G_.begin());
  std::copy(middle, middle + columns_, G_.begin() + static_cast<std::ptrdiff_t>(replaced * columns_));
  const Rows& from = of_parent_;
  of_part_.clear();
  of_part_.active = from.active;
  of_part_.active[replaced] = (from.active[kept] + from.active[replaced]) / length;
  for (std::size_t j = 0; j < from.count; ++j) {
    const double z = (from.values[kept][j] + from.values[replaced][j]) / length;
    of_part_.add(from.weights[j], [&](std::size_t i) { return i == replaced ? z : from.values[i][j]; });
  }
}

// Bound the part under way, and keep it if it may hold something better.
void ConeSearch::settle(unsigned signs, double parent_bound) {
  ++n_parts_;
  for (std::size_t i = 0; i < columns_; ++i) {
    for (std::size_t k = 0; k < columns_; ++k) {
      gram_[i * columns_ + k] = dot(&G_[i * columns_], &G_[k * columns_], columns_);
    }
  }
  double bound = 0.0;
  unsigned open = 0u;
  for (unsigned bit = 0u; bit < 2u; ++bit) {
    if (!((signs >> bit) & 1u)) continue;
    const double of_sign = std::min(bound_of(bit == 0u ? 1.0 : -1.0), parent_bound);
    if (of_sign > cutoff()) {
      open |= 1u << bit;
      bound = std::max(bound, of_sign);
    } else {
      closed_ = std::max(closed_, of_sign);
    }
  }
  if (open == 0u) return;
  const std::size_t place = new_place();
  std::copy(G_.begin(), G_.end(), pool_.begin() + static_cast<std::ptrdiff_t>(place * columns_ * columns_));
  open_.push({bound, place, open});
}

std::size_t ConeSearch::new_place() {
  if (free_.empty()) {
    const std::size_t place = pool_.size() / (columns_ * columns_);
    pool_.resize(pool_.size() + columns_ * columns_);
    return place;
  }
  const std::size_t place = free_.back();
  free_.pop_back();
  return place;
}

double ConeSearch::bound_of(double sign) {
  double l[kMostColumns], t[kMostColumns], v[kMostColumns];
  double least = std::numeric_limits<double>::infinity();
  slopes_by_mean(sign);
  for (int tangent = 0; tangent < kTangents; ++tangent) {
    linear_bound(sign, l);
    const double bound = shortest_above(l, t);
    least = std::min(least, bound);
    if (least <= cutoff() || tangent + 1 == kTangents) break;
    if (tangent == 0) {
      std::fill_n(v, columns_, 0.0);
      for (std::size_t i = 0; i < columns_; ++i) {
        for (std::size_t k = 0; k < columns_; ++k) v[k] += t[i] * G_[i * columns_ + k];
      }
      try_point(v);
    }
    slopes_at(sign, t);
  }
  return least;
}

// mu of each concave row at a kink as the share of its positive products.
void ConeSearch::slopes_by_mean(double sign) {
  const Rows& rows = of_part_;
  for (std::size_t j = 0; j < rows.count; ++j) {
    if (sign * rows.weights[j] > 0.0) continue;
    double positive = 0.0, all = 0.0;
    for (std::size_t i = 0; i < columns_; ++i) {
      const double z = rows.values[i][j];
      positive += std::max(z, 0.0);
      all += std::abs(z);
    }
    slopes_[j] = all > 0.0 ? positive / all : 0.0;
  }
}

// Half way to the tangents at v = sum of t_i g_i.
void ConeSearch::slopes_at(double sign, const double* t) {
  const Rows& rows = of_part_;
  for (std::size_t j = 0; j < rows.count; ++j) {
    if (sign * rows.weights[j] > 0.0) continue;
    double z = 0.0;
    for (std::size_t i = 0; i < columns_; ++i) z += t[i] * rows.values[i][j];
    slopes_[j] = 0.5 * (slopes_[j] + (z > 0.0 ? 1.0 : 0.0));
  }
}

// The values of the bound at the directions.
void ConeSearch::linear_bound(double sign, double* l) const {
  const Rows& rows = of_part_;
  for (std::size_t i = 0; i < columns_; ++i) {
    const std::vector<double>& values = rows.values[i];
    double sum = sign * rows.active[i];
    for (std::size_t j = 0; j < rows.count; ++j) {
      const double weight = sign * rows.weights[j];
      sum += weight * (weight > 0.0 ? std::max(values[j], 0.0) : slopes_[j] * values[j]);
    }
    l[i] = sum;
  }
}

// The length of an x with g_i'x >= l_i for all i: the shortest one up to rounding, and x = sum of t_i g_i.
double ConeSearch::shortest_above(const double* l, double* t) const {
  const unsigned all = (1u << columns_) - 1u;
  std::fill_n(t, columns_, 0.0);
  if (!(*std::max_element(l, l + columns_) > 0.0)) return 0.0;
  unsigned used = all;
  // Take all directions, and leave out those with the smallest t until none is negative; then let in what is violated.
  for (std::size_t step = 0; step < 4 * columns_; ++step) {
    if (!shortest_on(l, used, t)) break;
    std::size_t worst = columns_;
    double value = -1e-14;
    for (std::size_t i = 0; i < columns_; ++i) {
      if (t[i] < value) {
        value = t[i];
        worst = i;
      }
    }
    if (worst < columns_) {
      used &= ~(1u << worst);
      continue;
    }
    double short_by = 1e-13 * max_abs(l, columns_);
    for (std::size_t i = 0; i < columns_; ++i) {
      const double deficit = l[i] - dot(&gram_[i * columns_], t, columns_);
      if (deficit > short_by && !((used >> i) & 1u)) {
        short_by = deficit;
        worst = i;
      }
    }
    if (worst == columns_) break;
    used |= 1u << worst;
  }
  // Whatever was reached: raised to satisfy all, it is a bound.
  double x[kMostColumns] = {}, middle[kMostColumns] = {};
  double deficit = 0.0, nearest = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < columns_; ++i) {
    for (std::size_t k = 0; k < columns_; ++k) {
      x[k] += t[i] * G_[i * columns_ + k];
      middle[k] += G_[i * columns_ + k];
    }
  }
  for (std::size_t i = 0; i < columns_; ++i) {
    deficit = std::max(deficit, l[i] - dot(&G_[i * columns_], x, columns_));
    nearest = std::min(nearest, dot(&G_[i * columns_], middle, columns_));
  }
  for (std::size_t k = 0; k < columns_; ++k) x[k] += deficit / nearest * middle[k];
  return norm(x, columns_);
}

// Solves g_i'x = l_i for the directions in use, x a combination of these; false if they depend on each other.
bool ConeSearch::shortest_on(const double* l, unsigned used, double* t) const {
  double K[kMostColumns * kMostColumns], b[kMostColumns];
  std::size_t index[kMostColumns], n = 0;
  for (std::size_t i = 0; i < columns_; ++i) {
    t[i] = 0.0;
    if ((used >> i) & 1u) index[n++] = i;
  }
  for (std::size_t a = 0; a < n; ++a) {
    b[a] = l[index[a]];
    for (std::size_t c = 0; c < n; ++c) K[a * n + c] = gram_[index[a] * columns_ + index[c]];
  }
  if (n == 0 || !cholesky(K, n, n)) return false;
  cholesky_solve(K, n, n, b);
  for (std::size_t a = 0; a < n; ++a) t[index[a]] = b[a];
  return true;
}

}  // namespace dconnet
