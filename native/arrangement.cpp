#include "arrangement.hpp"

#include <algorithm>
#include <cmath>

namespace dconnet {

namespace {

// Directions within this of the border of a cell belong to it; their values are computed from all rows anyway.
constexpr double kAngle = 1e-12;
// Cells with less than this share of the largest value seen are passed by.
constexpr double kPromising = 0.5;

double product(const double* a, const double* b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

double cross(const double* a, const double* b) { return a[0] * b[1] - a[1] * b[0]; }

void add(double factor, const double* a, double* sum) {
  for (int k = 0; k < 3; ++k) sum[k] += factor * a[k];
}

}  // namespace

Arrangement::Arrangement(const double* Q, std::size_t rows) : Q_(Q), rows_(rows) { events_.reserve(rows); }

bool Arrangement::search(const double* r, double floor, const std::function<bool()>& proceed, double* values,
                         double* directions) {
  r_ = r;
  double largest = 0.0;
  for (std::size_t i = 0; i < rows_; ++i) {
    if (!proceed()) return false;
    Best best{0.0, {1.0, 0.0, 0.0}};
    if (product(Q_ + 3 * i, Q_ + 3 * i) > 0.0) {
      lay_out(i);
      walk(best, std::max(floor, kPromising * largest));
    }
    values[i] = std::abs(value(best.v));
    std::copy(best.v, best.v + 3, directions + 3 * i);
    largest = std::max(largest, values[i]);
  }
  return true;
}

// The circle of row i, and where all others cross it.
void Arrangement::lay_out(std::size_t i) {
  const double* q = Q_ + 3 * i;
  const double length = std::sqrt(product(q, q));
  double* n = circle_.normal;
  for (int k = 0; k < 3; ++k) n[k] = q[k] / length;
  const int least = std::abs(n[0]) <= std::abs(n[1]) ? (std::abs(n[0]) <= std::abs(n[2]) ? 0 : 2)
                                                     : (std::abs(n[1]) <= std::abs(n[2]) ? 1 : 2);
  double* e1 = circle_.e1;
  for (int k = 0; k < 3; ++k) e1[k] = (k == least ? 1.0 : 0.0) - n[least] * n[k];
  const double size = std::sqrt(product(e1, e1));
  for (int k = 0; k < 3; ++k) e1[k] /= size;
  double* e2 = circle_.e2;
  e2[0] = n[1] * e1[2] - n[2] * e1[1];
  e2[1] = n[2] * e1[0] - n[0] * e1[2];
  e2[2] = n[0] * e1[1] - n[1] * e1[0];
  events_.clear();
  std::fill_n(circle_.total, 3, 0.0);
  std::fill_n(&circle_.beside[0][0], 6, 0.0);
  for (std::size_t j = 0; j < rows_; ++j) {
    const double* other = Q_ + 3 * j;
    const double x = product(other, e1), y = product(other, e2);
    if (x * x + y * y > kAngle * kAngle * product(other, other)) {
      add_crossing(j, x, y);
    } else {
      add_parallel(j);
    }
  }
  std::sort(events_.begin(), events_.end(), [](const Event& a, const Event& b) { return a.key < b.key; });
}

// A row along the normal is active on one side of the circle and not on the other.
void Arrangement::add_parallel(std::size_t j) {
  const double* q = Q_ + 3 * j;
  add(r_[j], q, circle_.beside[product(q, circle_.normal) > 0.0 ? 0 : 1]);
}

void Arrangement::add_crossing(std::size_t j, double x, double y) {
  const double length = std::sqrt(x * x + y * y);
  double d[2] = {-y / length, x / length};  // here the row becomes inactive
  const bool flipped = d[1] < 0.0 || (d[1] == 0.0 && d[0] < 0.0);
  if (flipped) {
    d[0] = -d[0];
    d[1] = -d[1];
  }
  const double key = 1.0 - d[0] / (std::abs(d[0]) + d[1]);
  events_.push_back({key, {d[0], d[1]}, flipped ? 1.0 : -1.0, j});
  add(r_[j], Q_ + 3 * j, circle_.total);
}

void Arrangement::walk(Best& best, double promising) {
  double sum[3] = {0.0, 0.0, 0.0}, other[3];
  for (const Event& event : events_) {
    if (event.sign < 0.0) add(r_[event.row], Q_ + 3 * event.row, sum);
  }
  for (std::size_t k = 0; k < events_.size(); ++k) {
    const Event& begin = events_[k];
    add(begin.sign * r_[begin.row], Q_ + 3 * begin.row, sum);
    // Behind the last crossing comes the first one, on the other half of the circle.
    const bool last = k + 1 == events_.size();
    const Event& next = last ? events_[0] : events_[k + 1];
    const double end[2] = {last ? -next.d[0] : next.d[0], last ? -next.d[1] : next.d[1]};
    const double end_sign = last ? next.sign : -next.sign;
    for (int c = 0; c < 3; ++c) other[c] = circle_.total[c] - sum[c];
    see_arc(sum, begin, end, 1.0, best);
    see_arc(other, begin, end, -1.0, best);
    see_cells(sum, begin, next.row, end_sign, 1.0, promising, best);
    see_cells(other, begin, next.row, end_sign, -1.0, promising, best);
  }
}

// The candidates on an arc: where it begins, and inside. `turn` is -1 for the arc on the other half of the circle.
void Arrangement::see_arc(const double* sum, const Event& begin, const double* end, double turn, Best& best) {
  const double g[2] = {product(sum, circle_.e1), product(sum, circle_.e2)};
  const auto take = [&](double value, const double* d, double sign) {
    best.value = value;
    for (int c = 0; c < 3; ++c) best.v[c] = sign * (d[0] * circle_.e1[c] + d[1] * circle_.e2[c]);
  };
  const double at_begin = std::abs(g[0] * begin.d[0] + g[1] * begin.d[1]);
  if (at_begin > best.value) take(at_begin, begin.d, turn);
  const double length = std::sqrt(g[0] * g[0] + g[1] * g[1]);
  if (!(length > best.value)) return;
  const double side = cross(begin.d, g) >= 0.0 ? 1.0 : -1.0;
  const double d[2] = {side * g[0] / length, side * g[1] / length};
  if (cross(d, end) >= 0.0) take(length, d, turn);
}

// The candidates inside the cells on both sides of an arc.
void Arrangement::see_cells(const double* sum, const Event& begin, std::size_t end_row, double end_sign, double turn,
                            double promising, Best& best) {
  for (int side = 0; side < 2; ++side) {
    double a[3];
    for (int c = 0; c < 3; ++c) a[c] = sum[c] + circle_.beside[side][c];
    const double square = product(a, a);
    const double least = std::max(best.value, promising);
    if (!(square > least * least * (1.0 + kAngle))) continue;
    const double length = std::sqrt(square);
    const double inward = (product(a, circle_.normal) >= 0.0) == (side == 0) ? 1.0 : -1.0;
    double v[3];
    for (int c = 0; c < 3; ++c) v[c] = inward * a[c] / length;
    const double tolerance = -kAngle;
    if (turn * begin.sign * product(Q_ + 3 * begin.row, v) < tolerance) continue;
    if (turn * end_sign * product(Q_ + 3 * end_row, v) < tolerance) continue;
    const double there = std::abs(value(v));
    if (there > best.value) {
      best.value = there;
      std::copy(v, v + 3, best.v);
    }
  }
}

double Arrangement::value(const double* v) const {
  double sum = 0.0;
  for (std::size_t j = 0; j < rows_; ++j) sum += r_[j] * std::max(product(Q_ + 3 * j, v), 0.0);
  return sum;
}

}  // namespace dconnet
