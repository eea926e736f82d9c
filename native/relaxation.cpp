#include "relaxation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dconnet {

namespace {

constexpr double kFeasible = 1e-10;   // rows have a range of about one
constexpr double kPivot = 1e-8;       // smaller entries of the tableau are taken for zero
constexpr std::size_t kFresh = 60;    // pivots until the tableau is computed from scratch

}  // namespace

Relaxation::Relaxation(const double* G, const double* g, std::size_t rows, std::size_t columns)
    : low(rows + columns, 0.0),
      high(rows + columns, 0.0),
      constant(rows + columns, 0.0),
      left(rows + columns, 0.0),
      right(rows + columns, 0.0),
      multiplier(rows + columns, 0.0),
      conjugate(rows + columns, 0.0),
      rows_(rows),
      columns_(columns),
      G_(G, G + rows * columns),
      g_(g, g + rows),
      basic_(rows),
      nonbasic_(columns),
      side_(rows + columns, -1),
      rest_(rows + columns, -1),
      price_(rows),
      d_(columns),
      at_(columns),
      value_(rows) {
  breaks_.reserve(2 * columns + 1);
  reset();
}

void Relaxation::reset() {
  T_ = G_;
  t_ = g_;
  for (std::size_t r = 0; r < rows_; ++r) basic_[r] = columns_ + r;
  for (std::size_t k = 0; k < columns_; ++k) nonbasic_[k] = k;
  pivots_ = 0;
}

// The same basis with a tableau from the original rows; where that would need a tiny pivot, a basis nearby.
void Relaxation::rebuild() {
  std::vector<char> out(variables(), 0);
  for (const std::size_t j : nonbasic_) out[j] = 1;
  reset();
  for (std::size_t r = 0; r < rows_; ++r) {
    if (!out[basic_[r]]) continue;
    std::size_t best = columns_;
    double largest = kPivot;
    for (std::size_t k = 0; k < columns_; ++k) {
      const double size = std::fabs(T_[r * columns_ + k]);
      if (!out[nonbasic_[k]] && size > largest) {
        largest = size;
        best = k;
      }
    }
    if (best < columns_) pivot(r, best);
  }
  pivots_ = 0;
}

void Relaxation::pivot(std::size_t r, std::size_t k) {
  double* row = &T_[r * columns_];
  const double inverse = 1.0 / row[k];
  for (std::size_t l = 0; l < columns_; ++l) row[l] *= -inverse;
  row[k] = inverse;
  t_[r] *= -inverse;
  for (std::size_t s = 0; s < rows_; ++s) {
    double* other = &T_[s * columns_];
    const double factor = other[k];
    if (s == r || factor == 0.0) continue;
    other[k] = 0.0;
    for (std::size_t l = 0; l < columns_; ++l) other[l] += factor * row[l];
    t_[s] += factor * t_[r];
  }
  std::swap(basic_[r], nonbasic_[k]);
  ++pivots_;
}

double Relaxation::piece_low(std::size_t r) const {
  const std::size_t j = basic_[r];
  return is_kinked(j) && side_[j] > 0 ? 0.0 : low[j];
}

double Relaxation::piece_high(std::size_t r) const {
  const std::size_t j = basic_[r];
  return is_kinked(j) && side_[j] < 0 ? 0.0 : high[j];
}

// Prices of the basic variables, the slopes of their pieces, and from them the reduced slopes of the others.
void Relaxation::price() {
  std::fill(d_.begin(), d_.end(), 0.0);
  for (std::size_t r = 0; r < rows_; ++r) {
    const std::size_t j = basic_[r];
    price_[r] = is_kinked(j) ? (side_[j] < 0 ? left[j] : right[j]) : slope(j);
    if (price_[r] == 0.0) continue;
    const double* row = &T_[r * columns_];
    for (std::size_t k = 0; k < columns_; ++k) d_[k] += price_[r] * row[k];
  }
}

// Every nonbasic variable where it is best for these reduced slopes.
void Relaxation::place() {
  for (std::size_t k = 0; k < columns_; ++k) {
    const std::size_t j = nonbasic_[k];
    const double up = d_[k] + (is_kinked(j) ? right[j] : slope(j)), down = d_[k] + (is_kinked(j) ? left[j] : slope(j));
    // At a tie the variable stays: rounding errors would send it to and fro, and the method around in circles.
    if (up > zero_) {
      rest_[j] = 1;
    } else if (down < -zero_) {
      rest_[j] = -1;
    } else if (!is_kinked(j)) {
      if (rest_[j] == 0) rest_[j] = -1;
    } else if (up < -zero_ && down > zero_) {
      rest_[j] = 0;
    } else if (rest_[j] == (up < -zero_ ? 1 : -1)) {
      rest_[j] = 0;
    }
    at_[k] = rest_[j] > 0 ? high[j] : (rest_[j] < 0 ? low[j] : 0.0);
  }
  for (std::size_t r = 0; r < rows_; ++r) {
    const double* row = &T_[r * columns_];
    double sum = t_[r];
    for (std::size_t k = 0; k < columns_; ++k) sum += row[k] * at_[k];
    value_[r] = sum;
  }
}

double Relaxation::dual_value() const {
  double sum = 0.0;
  for (std::size_t r = 0; r < rows_; ++r) sum += constant[basic_[r]] + price_[r] * t_[r];
  for (std::size_t k = 0; k < columns_; ++k) {
    const std::size_t j = nonbasic_[k];
    sum += constant[j] + (d_[k] + (at_[k] < 0.0 || (at_[k] == 0.0 && low[j] < 0.0) ? left[j] : right[j])) * at_[k];
  }
  return sum;
}

// The row to leave the basis: largest violation for the length of its row; `rows` if there is none.
std::size_t Relaxation::most_violated() const {
  std::size_t best = rows_;
  double worst = 0.0;
  for (std::size_t r = 0; r < rows_; ++r) {
    const double violation = std::max(value_[r] - piece_high(r), piece_low(r) - value_[r]);
    if (violation <= kFeasible) continue;
    const double* row = &T_[r * columns_];
    double norm = 1.0;
    for (std::size_t k = 0; k < columns_; ++k) norm += row[k] * row[k];
    const double score = violation * violation / norm;
    if (score > worst) {
      worst = score;
      best = r;
    }
  }
  return best;
}

// Line search along the edge of the dual on which the price of a row changes; false if the dual falls without end.
bool Relaxation::step(std::size_t r) {
  const std::size_t leaving = basic_[r];
  const bool above = value_[r] > piece_high(r);
  const double sigma = above ? -1.0 : 1.0;
  double slope_left = above ? value_[r] - piece_high(r) : piece_low(r) - value_[r];
  const double* row = &T_[r * columns_];
  breaks_.clear();
  if (is_kinked(leaving) && (above == (side_[leaving] < 0))) {
    breaks_.push_back({left[leaving] - right[leaving], above ? high[leaving] : -low[leaving], columns_, 0});
  }
  for (std::size_t k = 0; k < columns_; ++k) {
    const double rate = sigma * row[k];
    if (std::fabs(rate) < kPivot) continue;
    const std::size_t j = nonbasic_[k];
    // A rising reduced slope passes -left, from low to zero, and then -right, from zero to high.
    const auto add = [&](double place, double jump, int side) {
      const double t = (place - d_[k]) / rate;
      if (jump > 0.0) breaks_.push_back({std::max(t, 0.0), std::fabs(rate) * jump, k, side});
    };
    const bool rising = rate > 0.0;
    if (is_kinked(j)) {
      if (rising ? at_[k] == low[j] : at_[k] >= 0.0 && at_[k] != low[j]) add(-left[j], -low[j], -1);
      if (rising ? at_[k] < high[j] : at_[k] == high[j]) add(-right[j], high[j], 1);
    } else if (rising ? at_[k] == low[j] : at_[k] == high[j]) {
      add(-slope(j), high[j] - low[j], 0);
    }
  }
  std::sort(breaks_.begin(), breaks_.end(), [](const Break& a, const Break& b) { return a.t < b.t; });
  for (std::size_t i = 0; i < breaks_.size(); ++i) {
    slope_left -= breaks_[i].slope;
    if (slope_left > 0.0) continue;
    // Of the breaks at the same place, the one with the largest pivot.
    std::size_t chosen = i;
    for (std::size_t other = i + 1; other < breaks_.size() && breaks_[other].t <= breaks_[i].t + 1e-14; ++other) {
      if (breaks_[chosen].k == columns_ || breaks_[other].k == columns_) break;
      if (std::fabs(row[breaks_[other].k]) > std::fabs(row[breaks_[chosen].k])) chosen = other;
    }
    bool at_kink = is_kinked(leaving) && above == (side_[leaving] < 0);
    for (std::size_t passed = 0; passed < i; ++passed) {
      const Break& over = breaks_[passed];
      if (over.k == columns_) {
        at_kink = false;  // the row has gone on to its other piece, and leaves at the end of that
        continue;
      }
      const bool rising = sigma * row[over.k] > 0.0;
      rest_[nonbasic_[over.k]] = over.side == 0 ? (rising ? 1 : -1) : (rising == (over.side > 0) ? over.side : 0);
    }
    const Break& at = breaks_[chosen];
    if (at.k == columns_) {
      side_[leaving] = -side_[leaving];
    } else {
      rest_[leaving] = at_kink ? 0 : (above ? 1 : -1);
      if (at.side != 0) side_[nonbasic_[at.k]] = at.side;
      pivot(r, at.k);
    }
    return true;
  }
  return slope_left <= kFeasible;
}

Relaxation::End Relaxation::iterate(double cutoff) {
  const std::size_t limit = 50 + 4 * variables();
  for (std::size_t iteration = 0; iteration < limit; ++iteration) {
    price();
    place();
    if (dual_value() < cutoff) return End::below_cutoff;
    const std::size_t r = most_violated();
    if (r == rows_) return End::optimal;
    if (!step(r)) return End::infeasible;
  }
  price();
  place();
  return End::stalled;
}

Relaxation::End Relaxation::solve(double cutoff) {
  if (pivots_ > kFresh) rebuild();
  zero_ = 0.0;
  for (std::size_t j = 0; j < variables(); ++j) {
    zero_ = std::max(zero_, 1e-12 * std::max(std::fabs(left[j]), std::fabs(right[j])));
  }
  End end = iterate(cutoff);
  if (end == End::infeasible && pivots_ > 0) {
    rebuild();
    end = iterate(cutoff);
  }
  return end;
}

double Relaxation::conjugate_of(std::size_t j, double constant_term, double slope, double from, double to) const {
  const double rate = slope - multiplier[j];
  return constant_term + std::max(rate * from, rate * to);
}

double Relaxation::bound() {
  for (std::size_t r = 0; r < rows_; ++r) {
    if (basic_[r] >= columns_) multiplier[basic_[r]] = price_[r];
  }
  for (std::size_t k = 0; k < columns_; ++k) {
    if (nonbasic_[k] >= columns_) multiplier[nonbasic_[k]] = -d_[k];
  }
  std::fill(multiplier.begin(), multiplier.begin() + static_cast<std::ptrdiff_t>(columns_), 0.0);
  double sum = 0.0;
  for (std::size_t r = 0; r < rows_; ++r) {
    const double y = multiplier[columns_ + r];
    sum += y * g_[r];
    if (y == 0.0) continue;
    const double* row = &G_[r * columns_];
    for (std::size_t i = 0; i < columns_; ++i) multiplier[i] -= y * row[i];
  }
  for (std::size_t j = 0; j < variables(); ++j) {
    if (low[j] < 0.0 && high[j] > 0.0 && left[j] != right[j]) {
      conjugate[j] = std::max(conjugate_of(j, constant[j], left[j], low[j], 0.0),
                              conjugate_of(j, constant[j], right[j], 0.0, high[j]));
    } else {
      conjugate[j] = conjugate_of(j, constant[j], slope(j), low[j], high[j]);
    }
    sum += conjugate[j];
  }
  return sum;
}

void Relaxation::point(double* x) const {
  const auto keep = [&](std::size_t j, double value) {
    if (j < columns_) x[j] = std::min(std::max(value, low[j]), high[j]);
  };
  for (std::size_t r = 0; r < rows_; ++r) keep(basic_[r], value_[r]);
  for (std::size_t k = 0; k < columns_; ++k) keep(nonbasic_[k], at_[k]);
}

}  // namespace dconnet
