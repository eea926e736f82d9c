// Tests of the optimisation over networks with two inputs against all corners, meant to run under sanitizers:
// `make sanitize`. A piecewise linear function has its maximum over a polygon where two of its lines meet: walls,
// constraints and kinks.

#include "random.hpp"
#include "sign_search.hpp"
#include "testing.hpp"

namespace {

using namespace dconnet;

constexpr std::size_t kColumns = 2;

bool close(double a, double b) { return std::fabs(a - b) <= 1e-7 * (1.0 + std::fabs(b)); }

struct Line {
  double u, v, side;  // u x + v y = side
};

// The points in which two of the lines meet.
std::vector<Vector> corners(const std::vector<Line>& lines) {
  std::vector<Vector> found;
  for (std::size_t a = 0; a < lines.size(); ++a) {
    for (std::size_t b = a + 1; b < lines.size(); ++b) {
      const Line &p = lines[a], &q = lines[b];
      const double determinant = p.u * q.v - p.v * q.u;
      if (std::fabs(determinant) < 1e-12) continue;
      found.push_back({(p.side * q.v - p.v * q.side) / determinant, (p.u * q.side - p.side * q.u) / determinant});
    }
  }
  return found;
}

// Neurons and then constraints as rows over the unit square, with the bounds of all variables.
struct Case {
  Case(std::size_t neurons, std::size_t constraints, Random& random)
      : neurons(neurons), rows(neurons + constraints), G(rows * kColumns), g(rows, 0.0), alpha(neurons),
        slopes(kColumns), low(kColumns + rows, 0.0), high(kColumns + rows, 1.0), step(kColumns + rows, 0.0) {
    for (double& value : G) value = random.normal();
    for (std::size_t l = 0; l < neurons; ++l) g[l] = 0.5 * random.normal();
    for (double& value : alpha) value = random.normal();
    for (double& value : slopes) value = random.normal();
    for (std::size_t r = 0; r < rows; ++r) {
      const double u = G[r * kColumns], v = G[r * kColumns + 1];
      low[kColumns + r] = g[r] + std::min(u, 0.0) + std::min(v, 0.0);
      high[kColumns + r] = g[r] + std::max(u, 0.0) + std::max(v, 0.0);
      if (r >= neurons) low[kColumns + r] += 0.3 * random.uniform() * (high[kColumns + r] - low[kColumns + r]);
    }
  }

  double row(std::size_t r, const Vector& x) const { return g[r] + G[r * kColumns] * x[0] + G[r * kColumns + 1] * x[1]; }

  double variable(std::size_t j, const Vector& x) const { return j < kColumns ? x[j] : row(j - kColumns, x); }

  double value(const Vector& x) const {
    double sum = slopes[0] * x[0] + slopes[1] * x[1];
    for (std::size_t l = 0; l < neurons; ++l) sum += alpha[l] * std::max(row(l, x), 0.0);
    return sum;
  }

  bool is_feasible(const Vector& x) const {
    for (std::size_t j = 0; j < low.size(); ++j) {
      const double v = variable(j, x);
      if (v < low[j] - 1e-8 || v > high[j] + 1e-8) return false;
    }
    return true;
  }

  // The lines on which a variable is at one of its bounds or at zero.
  std::vector<Line> lines() const {
    std::vector<Line> all;
    for (std::size_t j = 0; j < low.size(); ++j) {
      const bool is_row = j >= kColumns;
      const double* w = is_row ? &G[(j - kColumns) * kColumns] : nullptr;
      const double u = is_row ? w[0] : (j == 0 ? 1.0 : 0.0), v = is_row ? w[1] : (j == 1 ? 1.0 : 0.0);
      const double shift = is_row ? g[j - kColumns] : 0.0;
      for (double at : {low[j], 0.0, high[j]}) all.push_back({u, v, at - shift});
    }
    return all;
  }

  double largest_value() const {
    double best = -kInfinity;
    for (const Vector& x : corners(lines())) {
      if (is_feasible(x)) best = std::max(best, value(x));
    }
    return best;
  }

  SignSearch search() const {
    return SignSearch(G.data(), g.data(), alpha.data(), slopes.data(), low.data(), high.data(), step.data(), neurons,
                      rows - neurons, kColumns);
  }

  std::size_t neurons, rows;
  Vector G, g, alpha, slopes, low, high, step;
};

void finish(SignSearch& search) {
  while (!search.run(1.0, 1e-9, 1e-12, 0.0)) continue;
}

void test_search(const Case& given) {
  SignSearch search = given.search();
  finish(search);
  const double expected = given.largest_value();
  check(search.has_point() == (expected > -kInfinity), "a point is found where there is one");
  if (!search.has_point()) return;
  check(given.is_feasible(search.point()), "the point is feasible");
  check(close(given.value(search.point()), search.best()), "the value is that of the point");
  check(close(search.best(), expected), "the maximum is that of all corners");
  check(search.bound() >= search.best() && close(search.bound(), expected), "the bound meets the maximum");
  SignSearch again = given.search();
  finish(again);
  check(again.nodes() == search.nodes() && again.point() == search.point(), "the search repeats itself");
}

}  // namespace

int main() {
  Random random(1);
  for (std::size_t neurons : {1, 2, 5, 9, 16}) {
    for (std::size_t constraints : {0, 1, 3}) {
      for (int repeat = 0; repeat < 6; ++repeat) test_search(Case(neurons, constraints, random));
    }
  }
  return finish_tests();
}
