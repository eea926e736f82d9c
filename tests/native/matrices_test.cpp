// Tests of matrices, bases and faces against naive sums, meant to run under sanitizers: `make sanitize`.
#include <utility>

#include "design.hpp"
#include "face.hpp"
#include "lanes.hpp"
#include "testing.hpp"

namespace {

using dconnet::ActiveGram;
using dconnet::Design;
using dconnet::Programme;
using Random = TestRandom;

constexpr double kRounding = 1e-12;

void test_products(std::size_t rows, std::size_t columns) {
  subject = "products " + shape(rows, columns);
  Random random(static_cast<unsigned>(1000 * rows + columns));
  const Vector matrix = random.normals(rows * columns);
  const Design design(matrix.data(), rows, columns);
  CHECK(design.rows() == rows && design.columns() == columns);
  CHECK(design.stride() >= columns && design.stride() % 4 == 0);

  Vector v = random.normals(columns);
  v.resize(design.stride(), 0.0);
  Vector z(rows);
  design.apply(v.data(), z.data());
  const Vector expected = product(matrix, rows, columns, v.data());
  for (std::size_t j = 0; j < rows; ++j) CHECK_AT_MOST(std::fabs(z[j] - expected[j]), kRounding * columns);

  Vector w = random.normals(rows);
  w[0] = 0.0;
  Vector g(design.stride(), 7.0);  // what was there must not matter
  design.apply_transposed(w.data(), g.data());
  const Vector pulled = transposed_product(matrix, rows, columns, w.data());
  for (std::size_t k = 0; k < columns; ++k) CHECK_AT_MOST(std::fabs(g[k] - pulled[k]), kRounding * rows);
  for (std::size_t k = columns; k < design.stride(); ++k) CHECK(g[k] == 0.0);
}

// Whatever rows come and go: the free directions are orthonormal, leave the held rows at zero, and forces are found.
void test_kink_basis(std::size_t rows, std::size_t columns) {
  subject = "kink basis " + shape(rows, columns);
  Random random(static_cast<unsigned>(11 * rows + columns));
  const Vector matrix = random.normals(rows * columns);
  const Design design(matrix.data(), rows, columns);
  const std::size_t stride = design.stride();
  dconnet::KinkBasis basis(design);
  basis.clear();
  for (int change = 0; change < 200; ++change) {
    const std::size_t row = static_cast<std::size_t>(random.uniform(0.0, 0.999) * static_cast<double>(rows));
    const auto& held = basis.rows();
    if (std::find(held.begin(), held.end(), row) != held.end()) {
      CHECK(!basis.add(row));  // it depends on itself
      CHECK(basis.remove(row));
      CHECK(!basis.remove(row));  // a row that is not held
    } else if (held.size() < columns) {
      CHECK(basis.add(row));
    } else {
      CHECK(!basis.add(row));
      basis.remove(held[row % columns]);
    }
    CHECK(basis.free() + basis.rows().size() == columns);
    double error = 0.0;
    for (std::size_t i = 0; i < basis.free(); ++i) {
      const double* direction = basis.directions() + i * stride;
      for (std::size_t j : basis.rows()) error = std::max(error, std::fabs(dconnet::dot(direction, design.row(j), stride)));
      for (std::size_t l = 0; l <= i; ++l) {
        const double overlap = dconnet::dot(direction, basis.directions() + l * stride, stride);
        error = std::max(error, std::fabs(overlap - (l == i ? 1.0 : 0.0)));
      }
    }
    CHECK_AT_MOST(error, 1e-11 * columns);
  }
  const Vector forces = random.normals(basis.rows().size());
  Vector pushed(stride, 0.0), found(stride, 0.0);
  for (std::size_t i = 0; i < forces.size(); ++i) design.add_row(basis.rows()[i], forces[i], pushed.data());
  basis.forces(pushed.data(), found.data());
  Vector again(stride, 0.0);
  for (std::size_t i = 0; i < forces.size(); ++i) design.add_row(basis.rows()[i], found[i], again.data());
  for (std::size_t k = 0; k < columns; ++k) CHECK_AT_MOST(std::fabs(again[k] - pushed[k]), 1e-10 * columns);
}

// Whatever rows change sides, and in whatever numbers: on the face the minimiser is stationary but for the forces of the
// rows at their kinks, all of it summed up naively.
void test_face(std::size_t columns, double gamma) {
  const std::size_t rows = 200;
  subject = "face " + shape(rows, columns) + " gamma " + std::to_string(gamma);
  Random random(static_cast<unsigned>(columns));
  const Vector matrix = random_design(random, rows, columns);
  const Design design(matrix.data(), rows, columns);
  Vector linear = random.normals(columns);
  linear.resize(design.stride(), 0.0);
  const Vector slope = random.uniforms(rows, 0.0, 1.0);
  const Programme programme{design, linear.data(), slope.data(), 0.5, gamma};
  ActiveGram gram(design);
  ActiveGram::Changes room(rows);
  dconnet::Face face(design, room);
  std::vector<dconnet::Side> sides(rows, dconnet::Side::kInactive);
  for (std::size_t j = 0; j < rows; j += 2) sides[j] = dconnet::Side::kActive;
  Vector spare(rows);
  CHECK(face.enter(programme, sides.data(), gram, spare.data()));
  for (int change = 0; change < 200; ++change) {
    const int moves = change % 10 == 9 ? 40 : 1 + change % 3;
    for (int move = 0; move < moves; ++move) {
      const std::size_t row = static_cast<std::size_t>(random.uniform(0.0, 0.999) * static_cast<double>(rows));
      const double choice = random.uniform(0.0, 1.0);
      dconnet::Side side = choice < 0.3 ? dconnet::Side::kActive : dconnet::Side::kInactive;
      if (choice > 0.6 && face.kinks().size() < columns) side = dconnet::Side::kKink;
      if (side == face.side(row)) continue;
      face.move(row, side);
    }
    CHECK(face.minimise());
    Vector rest(linear.begin(), linear.begin() + static_cast<std::ptrdiff_t>(columns));
    double at_kinks = 0.0, largest_force = largest(rest);
    const auto add = [&](std::size_t row, double weight) {
      for (std::size_t k = 0; k < columns; ++k) rest[k] += weight * matrix[row * columns + k];
    };
    for (std::size_t k = 0; k < columns; ++k) rest[k] -= 2.0 * gamma * face.v()[k];
    for (std::size_t j = 0; j < rows; ++j) {
      const double z = dconnet::dot(&matrix[j * columns], face.v(), columns);
      if (face.side(j) == dconnet::Side::kActive) add(j, -slope[j] - 2.0 * programme.curvature * z);
      if (face.side(j) == dconnet::Side::kKink) at_kinks = std::max(at_kinks, std::fabs(z));
    }
    for (std::size_t i = 0; i < face.kinks().size(); ++i) {
      add(face.kinks()[i], -face.force(i));
      largest_force = std::max(largest_force, std::fabs(face.force(i)));
    }
    double size = 0.0;
    for (std::size_t k = 0; k < columns; ++k) size = std::max(size, std::fabs(face.v()[k]));
    CHECK_AT_MOST(at_kinks, 1e-11 * size);
    CHECK_AT_MOST(largest(rest), 1e-10 * (largest_force + size));
  }
}

void test_cholesky(std::size_t n) {
  subject = "Cholesky " + std::to_string(n);
  Random random(static_cast<unsigned>(n));
  const std::size_t stride = (n + 3) / 4 * 4 + 4;
  const Vector root = random.normals(n * n), x = random.normals(n);
  Vector G(stride * stride, std::numeric_limits<double>::quiet_NaN());  // only the upper triangle may be read
  const auto entry = [&](std::size_t k, std::size_t l) {
    double sum = k == l ? 0.1 : 0.0;
    for (std::size_t i = 0; i < n; ++i) sum += root[k * n + i] * root[l * n + i];
    return sum;
  };
  Vector b(n, 0.0);
  for (std::size_t k = 0; k < n; ++k) {
    for (std::size_t l = 0; l < n; ++l) {
      if (l >= k) G[k * stride + l] = entry(k, l);
      b[k] += entry(k, l) * x[l];
    }
  }
  CHECK(dconnet::cholesky(G.data(), n, stride));
  const Vector right_side = b;
  dconnet::cholesky_solve(G.data(), n, stride, b.data());
  double residual = 0.0;
  for (std::size_t k = 0; k < n; ++k) {
    double sum = -right_side[k];
    for (std::size_t l = 0; l < n; ++l) sum += entry(k, l) * b[l];
    residual = std::max(residual, std::fabs(sum));
  }
  CHECK_AT_MOST(residual, kRounding * n * (1.0 + largest(right_side)));
}

void test_cholesky_refuses() {
  subject = "Cholesky refuses";
  Vector indefinite = {1.0, 2.0, 2.0, 1.0};
  CHECK(!dconnet::cholesky(indefinite.data(), 2, 2));
  Vector zero = {0.0};
  CHECK(!dconnet::cholesky(zero.data(), 1, 1));
  Vector nan = {std::numeric_limits<double>::quiet_NaN()};
  CHECK(!dconnet::cholesky(nan.data(), 1, 1));
}

void test_lengths() {
  subject = "lengths";
  CHECK(dconnet::length_of(3.0, -4.0) == 5.0);
  CHECK(std::fabs(dconnet::length_of(3e-200, 4e-200) - 5e-200) < 1e-214);  // the squares are zero
  CHECK(dconnet::length_of(0.0, 0.0) == 0.0);
}

void test_sums(std::size_t n) {
  subject = "sums " + std::to_string(n);
  Random random(static_cast<unsigned>(n + 1));
  const Vector x = random.normals(n), y = random.normals(n);
  double sum = 0.0;
  for (std::size_t j = 0; j < n; ++j) sum += x[j] * y[j];
  CHECK_AT_MOST(std::fabs(dconnet::dot(x.data(), y.data(), n) - sum), kRounding * (1.0 + n));
  CHECK(dconnet::max_abs(x.data(), n) == largest(x));
}

// Wherever it is, and whatever comes before and after it.
void test_maxima_keep_nan(std::size_t n) {
  subject = "maxima " + std::to_string(n);
  Vector x = Random(static_cast<unsigned>(n)).normals(n);
  for (double& entry : x) {
    const double before = std::exchange(entry, kNaN);
    CHECK(std::isnan(dconnet::max_abs(x.data(), n)));
    entry = before;
  }
  for (std::size_t lane = 0; lane < dconnet::kLanes; ++lane) {
    const dconnet::Lanes sane = {-1.0, 2.0, -3.0, 4.0};
    dconnet::Lanes ill = sane;
    ill[lane] = kNaN;
    CHECK(std::isnan(dconnet::largest_of(ill)));
    dconnet::Lanes raised = sane;
    dconnet::raise_to(raised, ill);
    CHECK(std::isnan(raised[lane]));
    dconnet::raise_to(raised, sane);
    CHECK(std::isnan(raised[lane]));
    CHECK(raised[(lane + 1) % dconnet::kLanes] == sane[(lane + 1) % dconnet::kLanes]);
  }
}

}  // namespace

int main() {
  for (std::size_t columns : {1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 31, 64}) {
    for (std::size_t rows : {1, 2, 5, 127, 128, 129, 300}) test_products(rows, columns);
    test_kink_basis(200, columns);
    for (const double gamma : {1.0, 1e-3, 1e-6}) test_face(columns, gamma);
  }
  for (std::size_t n = 1; n <= 40; ++n) {
    test_cholesky(n);
    test_sums(n - 1);
    test_maxima_keep_nan(n);
  }
  test_cholesky_refuses();
  test_lengths();
  return finish_tests();
}
