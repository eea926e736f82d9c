// Tests of the kernel without Python, meant to run under sanitizers: `make sanitize`.
//
// They ask of every answer what defines it (naive sums, the optimality conditions, descent), and of a sweep that it
// allocates nothing.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "design.hpp"
#include "lanes.hpp"
#include "sample.hpp"
#include "solver.hpp"
#include "sweep.hpp"
#include "origin.hpp"

// ---------------------------------------------------------------------------------------------------------------------
// Every allocation is counted.

static std::atomic<std::size_t> allocations{0};

// Not inlined: where only one of new and delete is, GCC sees malloc meet delete, or new meet free, and warns.
#define NOT_INLINED __attribute__((noinline))

NOT_INLINED void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}

NOT_INLINED void* operator new(std::size_t size, std::align_val_t alignment) {
  ++allocations;
  const std::size_t unit = static_cast<std::size_t>(alignment);
  if (void* memory = std::aligned_alloc(unit, (size + unit - 1) / unit * unit)) return memory;
  throw std::bad_alloc();
}

NOT_INLINED void operator delete(void* memory) noexcept { std::free(memory); }
NOT_INLINED void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
NOT_INLINED void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
NOT_INLINED void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

// ---------------------------------------------------------------------------------------------------------------------

namespace {

using dconnet::ActiveGram;
using dconnet::Design;
using dconnet::Limits;
using dconnet::Programme;
using dconnet::Solver;
using dconnet::Split;
using dconnet::Sweep;
using dconnet::Tally;
using Vector = std::vector<double>;

constexpr double kRounding = 1e-12;
constexpr double kGap = 1e-10;
constexpr double kKkt = 2e-9;  // what the solver accepts, and rounding
constexpr std::size_t kIterations = 300;

std::size_t checks = 0, failures = 0;
std::string subject;  // what is being tested, for the message

#define CHECK(condition)                                                                             \
  do {                                                                                               \
    ++checks;                                                                                        \
    if (!(condition)) {                                                                              \
      ++failures;                                                                                    \
      std::printf("%s:%d: %s: failed: %s\n", __FILE__, __LINE__, subject.c_str(), #condition);       \
    }                                                                                                \
  } while (false)

#define CHECK_AT_MOST(value, limit)                                                                          \
  do {                                                                                                       \
    ++checks;                                                                                                \
    const double value_ = (value), limit_ = (limit);                                                         \
    if (!(value_ <= limit_)) {                                                                               \
      ++failures;                                                                                            \
      std::printf("%s:%d: %s: %s is %.3g, above %.3g\n", __FILE__, __LINE__, subject.c_str(), #value, value_, \
                  limit_);                                                                                   \
    }                                                                                                        \
  } while (false)

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}

  double normal() { return normal_(engine_); }
  double uniform(double low, double high) { return low + (high - low) * uniform_(engine_); }

  Vector normals(std::size_t n) {
    Vector values(n);
    for (double& value : values) value = normal();
    return values;
  }

  Vector uniforms(std::size_t n, double low, double high) {
    Vector values(n);
    for (double& value : values) value = uniform(low, high);
    return values;
  }

 private:
  std::mt19937_64 engine_;
  std::normal_distribution<double> normal_;
  std::uniform_real_distribution<double> uniform_;
};

double largest(const Vector& values) {
  double most = 0.0;
  for (double value : values) most = std::max(most, std::fabs(value));
  return most;
}

// Of a C-contiguous matrix.
Vector product(const Vector& matrix, std::size_t rows, std::size_t columns, const double* v) {
  Vector z(rows, 0.0);
  for (std::size_t j = 0; j < rows; ++j) {
    for (std::size_t k = 0; k < columns; ++k) z[j] += matrix[j * columns + k] * v[k];
  }
  return z;
}

Vector transposed_product(const Vector& matrix, std::size_t rows, std::size_t columns, const double* w) {
  Vector g(columns, 0.0);
  for (std::size_t j = 0; j < rows; ++j) {
    for (std::size_t k = 0; k < columns; ++k) g[k] += matrix[j * columns + k] * w[j];
  }
  return g;
}

// Makes the columns orthonormal (Gram-Schmidt, twice for accuracy).
Vector orthonormal(Vector matrix, std::size_t rows, std::size_t columns) {
  const auto at = [&](std::size_t j, std::size_t k) -> double& { return matrix[j * columns + k]; };
  for (std::size_t k = 0; k < columns; ++k) {
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t l = 0; l < k; ++l) {
        double overlap = 0.0;
        for (std::size_t j = 0; j < rows; ++j) overlap += at(j, k) * at(j, l);
        for (std::size_t j = 0; j < rows; ++j) at(j, k) -= overlap * at(j, l);
      }
      double squares = 0.0;
      for (std::size_t j = 0; j < rows; ++j) squares += at(j, k) * at(j, k);
      for (std::size_t j = 0; j < rows; ++j) at(j, k) /= std::sqrt(squares);
    }
  }
  return matrix;
}

Vector random_design(Random& random, std::size_t rows, std::size_t columns) {
  return orthonormal(random.normals(rows * columns), rows, columns);
}

std::string shape(std::size_t rows, std::size_t columns) {
  return std::to_string(rows) + "x" + std::to_string(columns);
}

// ---------------------------------------------------------------------------------------------------------------------
// Passes over the design.

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

// Rows that are padded already need no copy; moving a design leaves its rows where they are.
void test_view(std::size_t rows, std::size_t columns) {
  subject = "view " + shape(rows, columns);
  Random random(static_cast<unsigned>(rows + columns));
  const Vector matrix = random.normals(rows * columns);
  Design copied(matrix.data(), rows, columns);
  Vector padded(rows * copied.stride(), 0.0);
  for (std::size_t j = 0; j < rows; ++j) {
    std::copy(copied.row(j), copied.row(j) + copied.stride(), padded.data() + j * copied.stride());
  }
  const Design moved(std::move(copied)), view = Design::view(padded.data(), rows, columns);
  CHECK(view.row(0) == padded.data());
  Vector v = random.normals(columns), z(rows), same(rows);
  v.resize(view.stride(), 0.0);
  moved.apply(v.data(), z.data());
  view.apply(v.data(), same.data());
  CHECK(z == same);
}

void test_listed_rows(std::size_t rows, std::size_t columns) {
  subject = "listed rows " + shape(rows, columns);
  Random random(static_cast<unsigned>(7000 * rows + columns));
  const Vector matrix = random.normals(rows * columns);
  const Design design(matrix.data(), rows, columns);
  const std::size_t stride = design.stride();
  std::vector<dconnet::Row> listed;
  for (std::size_t j = 0; j < rows; ++j) {
    if (random.uniform(0.0, 1.0) < 0.7) listed.push_back(static_cast<dconnet::Row>(j));
  }
  const Vector weights = random.normals(listed.size());
  Vector g(stride, 0.0), G(stride * stride, 1.0);
  for (std::size_t i = 0; i < listed.size(); ++i) design.add_row(listed[i], weights[i], g.data());
  design.add_gram(listed.data(), weights.data(), listed.size(), G.data());
  for (std::size_t k = 0; k < columns; ++k) {
    double sum = 0.0;
    for (std::size_t i = 0; i < listed.size(); ++i) sum += weights[i] * matrix[listed[i] * columns + k];
    CHECK_AT_MOST(std::fabs(g[k] - sum), kRounding * rows);
    for (std::size_t l = k; l < columns; ++l) {
      double entry = 1.0;
      for (std::size_t i = 0; i < listed.size(); ++i) {
        entry += weights[i] * matrix[listed[i] * columns + k] * matrix[listed[i] * columns + l];
      }
      CHECK_AT_MOST(std::fabs(G[k * stride + l] - entry), kRounding * rows);
    }
    for (std::size_t l = columns; l < stride; ++l) CHECK(G[k * stride + l] == 1.0);  // nothing is added by padding
  }
  Vector v = random.normals(columns), z(listed.size());
  v.resize(stride, 0.0);
  design.apply_to_rows(listed.data(), listed.size(), v.data(), z.data());
  const Vector all = product(matrix, rows, columns, v.data());
  for (std::size_t i = 0; i < listed.size(); ++i) CHECK_AT_MOST(std::fabs(z[i] - all[listed[i]]), kRounding * columns);
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

void test_symmetric_product(std::size_t n) {
  subject = "symmetric product " + std::to_string(n);
  Random random(static_cast<unsigned>(n));
  const std::size_t stride = (n + 3) / 4 * 4;
  Vector full(stride * stride, 0.0), tiles(stride * stride, std::numeric_limits<double>::quiet_NaN());
  for (std::size_t k = 0; k < n; ++k) {
    for (std::size_t l = k; l < n; ++l) full[k * stride + l] = full[l * stride + k] = random.uniform(-1.0, 1.0);
  }
  for (std::size_t k = 0; k < stride; ++k) {
    for (std::size_t l = k / 4 * 4; l < stride; ++l) tiles[k * stride + l] = full[k * stride + l];
  }
  Vector v = random.normals(n), y(stride);
  v.resize(stride, 0.0);
  dconnet::multiply_symmetric(tiles.data(), stride, v.data(), y.data());
  const Vector expected = product(full, stride, stride, v.data());
  for (std::size_t k = 0; k < n; ++k) CHECK_AT_MOST(std::fabs(y[k] - expected[k]), kRounding * n);
}

void test_row_products(std::size_t rows, std::size_t columns) {
  subject = "row products " + shape(rows, columns);
  Random random(static_cast<unsigned>(100 * rows + columns));
  const std::size_t stride = (std::max(rows, columns) + 3) / 4 * 4;
  const Vector A = random.normals(rows * stride), B = random.normals(columns * stride);
  for (const bool upper : {false, true}) {
    Vector C(rows * stride, 0.0);
    dconnet::multiply_rows(A.data(), rows, B.data(), columns, stride, upper, C.data());
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = upper ? i : 0; j < columns; ++j) {
        double sum = 0.0;
        for (std::size_t k = 0; k < stride; ++k) sum += A[i * stride + k] * B[j * stride + k];
        CHECK_AT_MOST(std::fabs(C[i * stride + j] - sum), kRounding * stride);
      }
    }
  }
}

void test_active_gram(std::size_t rows, std::size_t columns) {
  subject = "active Gram matrix " + shape(rows, columns);
  Random random(static_cast<unsigned>(300 * rows + columns));
  const Vector matrix = random_design(random, rows, columns);
  const Design design(matrix.data(), rows, columns);
  const std::size_t stride = design.stride();
  ActiveGram gram(design);
  ActiveGram::Changes room(rows);
  std::vector<unsigned char> wanted(rows, 0);
  for (int change = 0; change < 40; ++change) {
    const double share = change % 10 == 0 ? 0.9 : 0.05;
    for (unsigned char& is : wanted) is ^= static_cast<unsigned char>(random.uniform(0.0, 1.0) < share);
    gram.match(design, wanted.data(), room);
    double error = 0.0;
    for (std::size_t k = 0; k < columns; ++k) {
      for (std::size_t l = k; l < columns; ++l) {
        double entry = 0.0;
        for (std::size_t j = 0; j < rows; ++j) {
          if (wanted[j]) entry += matrix[j * columns + k] * matrix[j * columns + l];
        }
        error = std::max(error, std::fabs(gram.values()[k * stride + l] - entry));
      }
    }
    CHECK_AT_MOST(error, kRounding);
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

const double kNaN = std::numeric_limits<double>::quiet_NaN();

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

// ---------------------------------------------------------------------------------------------------------------------
// Single programmes.

struct Case {
  std::size_t rows, columns;
  Vector design;          // rows x columns
  Vector linear, slope;   // t, beta
  double curvature = 1.0, gamma = 0.1;
};

// As the DCA meets them: for a random residual and a random current neuron.
Case dca_case(Random& random, Vector design, std::size_t rows, std::size_t columns, double gamma, double alpha) {
  Case made{rows, columns, std::move(design), {}, Vector(rows), alpha * alpha, gamma};
  const Vector current = random.normals(columns);
  const Vector z = product(made.design, rows, columns, current.data());
  Vector pull(rows, 0.0);
  for (std::size_t j = 0; j < rows; ++j) {
    const double slope = 2.0 * alpha * random.normal();
    made.slope[j] = std::max(slope, 0.0);
    if (z[j] >= 0.0) pull[j] = std::max(-slope, 0.0);
  }
  made.linear = transposed_product(made.design, rows, columns, pull.data());
  return made;
}

Case typical(unsigned seed, std::size_t rows, std::size_t columns, double gamma = 0.1, double alpha = 1.0) {
  Random random(seed);
  Vector design = random_design(random, rows, columns);
  return dca_case(random, std::move(design), rows, columns, gamma, alpha);
}

// With the solution zero: all rows at their kink at once, their multipliers the given fractions of the slopes.
Case dying(unsigned seed, std::size_t rows, std::size_t columns, double low, double high) {
  Random random(seed);
  Case made{rows, columns, random_design(random, rows, columns), {}, random.uniforms(rows, 0.5, 2.0), 1.0, 0.01};
  Vector multipliers = random.uniforms(rows, low, high);
  for (std::size_t j = 0; j < rows; ++j) multipliers[j] *= made.slope[j];
  made.linear = transposed_product(made.design, rows, columns, multipliers.data());
  return made;
}

Case repeated_rows(unsigned seed, std::size_t distinct, std::size_t times, std::size_t columns) {
  Random random(seed);
  const Vector few = random.normals(distinct * columns);
  Vector many;
  for (std::size_t i = 0; i < times; ++i) many.insert(many.end(), few.begin(), few.end());
  const std::size_t rows = distinct * times;
  return dca_case(random, orthonormal(std::move(many), rows, columns), rows, columns, 0.02, 1.0);
}

// Columns that repeat and columns of zeros, which no whitening leaves: gamma alone makes the solution unique.
Case rank_deficient(unsigned seed, std::size_t rows, std::size_t rank, std::size_t columns) {
  Random random(seed);
  const Vector basis = random_design(random, rows, rank);
  Vector design(rows * columns, 0.0);
  for (std::size_t j = 0; j < rows; ++j) {
    for (std::size_t k = 0; k + 1 < columns; ++k) {
      design[j * columns + k] = basis[j * rank + k % rank] / std::sqrt(static_cast<double>(columns));
    }
  }
  return dca_case(random, std::move(design), rows, columns, 0.05, 1.0);
}

// An answer, and the naive check of what defines it.
struct Answer {
  Vector v, z, multipliers;
  dconnet::Outcome outcome;
};

double hinge_violation(const Case& test, double z, double multiplier, double slope) {
  const double hessian = 2.0 * (test.gamma + test.curvature);
  const double point = z + multiplier / hessian;
  const double shifted = point - slope / hessian;
  const double prox = point <= 0.0 ? point : std::max(shifted, 0.0) / (1.0 + 2.0 * test.curvature / hessian);
  return hessian * std::fabs(z - prox);
}

double kkt_violation(const Case& test, const Answer& answer) {
  const Vector z = product(test.design, test.rows, test.columns, answer.v.data());
  const Vector pull = transposed_product(test.design, test.rows, test.columns, answer.multipliers.data());
  double violation = 0.0;
  for (std::size_t k = 0; k < test.columns; ++k) {
    violation = std::max(violation, std::fabs(2.0 * test.gamma * answer.v[k] - test.linear[k] + pull[k]));
  }
  for (std::size_t j = 0; j < test.rows; ++j) {
    violation = std::max(violation, hinge_violation(test, z[j], answer.multipliers[j], test.slope[j]));
  }
  const double unit = std::max(largest(test.linear), largest(answer.multipliers));
  return unit == 0.0 ? violation : violation / unit;
}

class Harness {
 public:
  explicit Harness(const Case& test)
      : test_(test), solver_(test.design.data(), test.rows, test.columns), gram_(solver_.design()) {}

  Answer cold() {
    return solve({Vector(stride(), 0.0), Vector(test_.rows, 0.0), Vector(test_.rows, 0.0), {}});
  }

  Answer solve(Answer answer) {
    Vector linear = test_.linear;
    linear.resize(stride(), 0.0);
    const Programme programme{solver_.design(), linear.data(), test_.slope.data(), test_.curvature, test_.gamma};
    solver_.design().apply(answer.v.data(), answer.z.data());
    answer.outcome = solver_.solve(programme, kGap, kIterations, false, {answer.v.data(), answer.z.data(),
                                   answer.multipliers.data()}, gram_);
    return answer;
  }

  void judge(const Answer& answer) {
    CHECK(answer.outcome.converged);
    CHECK_AT_MOST(kkt_violation(test_, answer), kKkt);
    const Vector z = product(test_.design, test_.rows, test_.columns, answer.v.data());
    for (std::size_t j = 0; j < test_.rows; ++j) {
      CHECK_AT_MOST(std::fabs(answer.z[j] - z[j]), kRounding * (1.0 + largest(z)) * test_.columns);
    }
    for (std::size_t k = test_.columns; k < stride(); ++k) CHECK(answer.v[k] == 0.0);
  }

 private:
  std::size_t stride() const { return solver_.design().stride(); }

  Case test_;
  Solver solver_;
  ActiveGram gram_;
};

// From nothing, from its own answer, and from a start that has nothing to do with it.
void test_programme(const std::string& name, const Case& test) {
  subject = "programme: " + name;
  Harness harness(test);
  const Answer cold = harness.cold();
  harness.judge(cold);
  harness.judge(harness.solve(cold));
  Random random(99);
  Answer wild = cold;
  for (std::size_t k = 0; k < test.columns; ++k) wild.v[k] = 100.0 * random.normal();
  wild.multipliers = random.uniforms(test.rows, 0.0, 100.0);
  harness.judge(harness.solve(wild));
}

void test_typical_programmes() {
  const std::vector<std::pair<std::size_t, std::size_t>> shapes = {{1, 1},  {2, 1},   {50, 1},  {5, 5},  {12, 11},
                                                                   {40, 4}, {60, 13}, {300, 7}, {80, 60}, {500, 33}};
  for (const auto& [rows, columns] : shapes) {
    for (unsigned seed = 0; seed < 4; ++seed) {
      const double gamma = seed % 2 == 0 ? 0.1 : 1e-3, alpha = seed < 2 ? 1.0 : 0.3;
      const std::string name = shape(rows, columns) + " seed " + std::to_string(seed);
      test_programme(name, typical(seed, rows, columns, gamma, alpha));
    }
  }
}

void test_degenerate_programmes() {
  for (unsigned seed = 0; seed < 4; ++seed) {
    const std::string suffix = " seed " + std::to_string(seed);
    test_programme("dying, well inside" + suffix, dying(seed, 60, 5, 0.2, 0.8));
    test_programme("dying, close to the bounds" + suffix, dying(seed, 200, 9, 0.0, 1.0));
    test_programme("dying, steep slopes" + suffix, dying(seed, 40, 4, 1e-4, 1e-4));
    test_programme("dying, one row" + suffix, dying(seed, 1, 1, 0.2, 0.8));
    test_programme("dying, square" + suffix, dying(seed, 12, 12, 0.2, 0.8));
    test_programme("repeated rows" + suffix, repeated_rows(seed, 12, 4, 4));
    test_programme("as many distinct rows as columns" + suffix, repeated_rows(seed, 4, 6, 4));
    test_programme("rank-deficient" + suffix, rank_deficient(seed, 40, 4, 9));
  }
  Case flat = typical(5, 40, 4);
  std::fill(flat.slope.begin(), flat.slope.end(), 0.0);
  test_programme("no slopes", flat);
  Case idle = typical(6, 40, 4);
  std::fill(idle.linear.begin(), idle.linear.end(), 0.0);
  test_programme("no linear term", idle);
}

void test_extreme_programmes() {
  for (double gamma : {1e-8, 1e-3, 1e4}) {
    for (double alpha : {1e-8, 1e-2, 1e4}) {
      test_programme("gamma " + std::to_string(gamma) + " alpha " + std::to_string(alpha),
                     typical(90, 40, 4, gamma, alpha));
    }
  }
  for (double factor : {1e-100, 1e-6, 1e6, 1e100}) {
    Case scaled = typical(91, 40, 4);
    for (double& value : scaled.linear) value *= factor;
    for (double& value : scaled.slope) value *= factor;
    test_programme("scaled linear terms", scaled);
  }
}

// Numbers that are none must neither crash nor be called solved.
void test_hostile_programmes() {
  for (double poison : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    subject = "programme: hostile " + std::to_string(poison);
    Case in_linear = typical(92, 40, 4), in_slope = in_linear, in_gamma = in_linear;
    in_linear.linear[1] = poison;
    CHECK(!Harness(in_linear).cold().outcome.converged);
    in_gamma.gamma = poison;
    CHECK(!Harness(in_gamma).cold().outcome.converged);
    in_slope.slope[3] = poison;
    const Answer answer = Harness(in_slope).cold();
    if (std::isnan(poison)) CHECK(!answer.outcome.converged);  // an infinite slope is a constraint: either verdict is fine
  }
}

// A solution with a NaN in it, in any place of any part, is certified by no tolerance.
void test_certificate_of_nan(const Case& test) {
  subject = "certificate of NaN " + shape(test.rows, test.columns);
  Case ill = test;
  ill.linear.resize(dconnet::round_up_to_lanes(test.columns), 0.0);
  Answer answer = Harness(test).cold();
  const Design design(test.design.data(), test.rows, test.columns);
  dconnet::Scratch scratch(test.rows);
  dconnet::Certifier certifier(design, scratch);
  const auto meets = [&] {
    const Programme programme{design, ill.linear.data(), ill.slope.data(), ill.curvature, ill.gamma};
    const double any = std::numeric_limits<double>::max();
    return certifier.certify(programme, {answer.v.data(), answer.z.data(), answer.multipliers.data()}, any).meets(any, any);
  };
  CHECK(meets());
  const auto poison = [&](double& entry) {
    const double before = std::exchange(entry, kNaN);
    CHECK(!meets());
    entry = before;
  };
  for (std::size_t k = 0; k < test.columns; ++k) {
    poison(ill.linear[k]);
    poison(answer.v[k]);
  }
  for (std::size_t j = 0; j < test.rows; ++j) {
    poison(ill.slope[j]);
    poison(answer.z[j]);
    poison(answer.multipliers[j]);
  }
  poison(ill.gamma);
  poison(ill.curvature);
  CHECK(meets());
}

// Enough rows for a sample of them to be of use.
void test_many_rows() {
  const std::size_t rows = 8000;
  for (unsigned seed = 0; seed < 3; ++seed) {
    const std::string suffix = ", many rows, seed " + std::to_string(seed);
    for (const double gamma : {1e-8, 1e-3, 1.0, 1e4}) {
      for (const double alpha : {1e-4, 0.3, 1e2}) {
        test_programme("gamma " + std::to_string(gamma) + " alpha " + std::to_string(alpha) + suffix,
                       typical(seed, rows, 4, gamma, alpha));
      }
    }
    test_programme("dying" + suffix, dying(seed, rows, 4, 0.2, 0.8));
    test_programme("dying, close to the bounds" + suffix, dying(seed, rows, 4, 0.0, 1.0));
    test_programme("repeated rows" + suffix, repeated_rows(seed, 250, 32, 3));  // the sample has but one of them
    test_programme("rank-deficient" + suffix, rank_deficient(seed, rows, 2, 4));
  }
}

// The sample has the solution of its own programme, which is that of all rows where they are copies of each other.
void test_sample() {
  subject = "sample";
  const Case few = typical(5, 200, 4);
  CHECK(dconnet::Sample::of(Design(few.design.data(), few.rows, few.columns)) == nullptr);

  const std::size_t copies = 64;
  Case many{few.rows * copies, few.columns, {}, few.linear, {}, few.curvature, few.gamma};
  for (std::size_t i = 0; i < many.rows; ++i) {
    const auto row = few.design.begin() + static_cast<std::ptrdiff_t>(i / copies * few.columns);
    many.design.insert(many.design.end(), row, row + static_cast<std::ptrdiff_t>(few.columns));
    many.slope.push_back(few.slope[i / copies]);
  }
  for (double& x : many.design) x /= std::sqrt(static_cast<double>(copies));
  for (double& slope : many.slope) slope /= std::sqrt(static_cast<double>(copies));
  const Answer answer = Harness(many).cold();
  const Design design(many.design.data(), many.rows, many.columns);
  const std::unique_ptr<dconnet::Sample> sample = dconnet::Sample::of(design);
  CHECK(sample != nullptr);
  Vector linear = many.linear;
  linear.resize(design.stride(), 0.0);
  const Programme programme{design, linear.data(), many.slope.data(), many.curvature, many.gamma};
  Random random(6);
  for (int repetition = 0; repetition < 3; ++repetition) {
    Vector v = random.normals(many.columns);
    v.resize(design.stride(), 0.0);
    const Vector z = product(many.design, many.rows, many.columns, v.data());
    Vector multipliers(many.rows);
    for (std::size_t j = 0; j < many.rows; ++j) {
      multipliers[j] = z[j] > 0.0 ? many.slope[j] + 2.0 * many.curvature * z[j] : 0.0;
    }
    Vector pull = transposed_product(many.design, many.rows, many.columns, multipliers.data());
    CHECK(sample->solve(programme, pull.data(), v.data()));
    for (std::size_t k = 0; k < many.columns; ++k) {
      CHECK_AT_MOST(std::fabs(sample->v()[k] - answer.v[k]), 1e-9 * largest(answer.v));
    }
  }
}

// Zero is told from a point where the programme falls, with multipliers that prove it or a point that is lower.
void test_origin() {
  subject = "origin";
  Random random(77);
  const std::size_t rows = 200, columns = 6;
  const Vector matrix = random_design(random, rows, columns);
  const Design design(matrix.data(), rows, columns);
  const Vector slope = random.uniforms(rows, 0.5, 2.0);
  ActiveGram::Changes room(rows);
  dconnet::Scratch scratch(rows);
  dconnet::OriginTest origin(design, room, scratch);
  for (const bool falls : {false, true}) {
    const Vector plane = random.normals(columns), side = product(matrix, rows, columns, plane.data());
    Vector pull(rows);  // within the slopes, or stronger on one side of a random plane
    for (std::size_t j = 0; j < rows; ++j) {
      pull[j] = slope[j] * (falls ? (side[j] > 0.0 ? 1.5 : 0.3) : random.uniform(0.2, 0.8));
    }
    Vector linear = transposed_product(matrix, rows, columns, pull.data());
    linear.resize(design.stride(), 0.0);
    const Programme programme{design, linear.data(), slope.data(), 1.0, 0.1};
    Vector v(design.stride(), 0.0), z(rows, 0.0), multipliers(rows, 0.0);
    std::size_t rounds = 0;
    const auto verdict = origin.examine(programme, 40, {v.data(), z.data(), multipliers.data()}, rounds);
    CHECK(rounds > 0);
    if (!falls) {
      CHECK(verdict == dconnet::OriginVerdict::kSolution);
      const Vector balance = transposed_product(matrix, rows, columns, multipliers.data());
      for (std::size_t k = 0; k < columns; ++k) {
        CHECK_AT_MOST(std::fabs(balance[k] - linear[k]), kRounding * largest(linear));
      }
      for (std::size_t j = 0; j < rows; ++j) CHECK(multipliers[j] >= 0.0 && multipliers[j] <= slope[j]);
      CHECK(largest(v) == 0.0 && largest(z) == 0.0);
    } else {
      CHECK(verdict == dconnet::OriginVerdict::kDescends);
      CHECK(dconnet::value(programme, v.data(), z.data()) < 0.0);
    }
  }
}

// The same for rows of which only sums are told, however many threads there are. Multipliers between bounds that are `tight`
// are hard to find; `falls` as above.
void test_zero_point(bool tight, bool falls, std::size_t threads) {
  subject = std::string("zero point: ") + (tight ? "tight" : "loose") + (falls ? ", falls" : "");
  Random random(78);
  const std::size_t rows = 20000, columns = 7;
  const Vector matrix = random_design(random, rows, columns);
  const Design design(matrix.data(), rows, columns);
  const Vector slope = random.uniforms(rows, 0.5, 2.0);
  Vector y(rows), pull(rows);
  const Vector plane = random.normals(columns), side = product(matrix, rows, columns, plane.data());
  for (std::size_t j = 0; j < rows; ++j) {
    y[j] = -slope[j];  // of which beta_g is made, for an output weight of one half
    const double share = tight ? (side[j] > 0.0 ? 0.98 : 0.02) : random.uniform(0.2, 0.8);
    pull[j] = slope[j] * (falls ? (side[j] > 0.0 ? 1.5 : 0.3) : share);
  }
  Vector linear = transposed_product(matrix, rows, columns, pull.data());
  linear.resize(design.stride(), 0.0);
  dconnet::Team team(threads);
  dconnet::NeuronRows neuron_rows(design, 1, 1, team);
  neuron_rows.allocate_near_and_far();
  neuron_rows.set_targets(y.data());
  const double alpha = 0.5, curvature = 0.25, gamma = 0.1;
  Vector v(design.stride(), 0.0), squares(neuron_rows.leaves()), sums(neuron_rows.leaves() * dconnet::kPassSums);
  neuron_rows.set_network(&alpha, v.data(), squares.data());
  neuron_rows.open(&alpha, v.data(), Split::kPaper, nullptr, sums.data(), nullptr);
  dconnet::OriginTestByPasses zero(neuron_rows);
  std::size_t rounds = 0;
  const auto verdict = zero.examine(linear.data(), curvature, gamma, v.data(), rounds);
  CHECK(rounds > 0 && rounds <= 20);
  CHECK(verdict == (falls ? dconnet::OriginVerdict::kDescends : dconnet::OriginVerdict::kSolution));
  CHECK((largest(v) == 0.0) == !falls);
  if (!falls) return;
  const Vector z = product(matrix, rows, columns, v.data());
  const Programme programme{design, linear.data(), slope.data(), curvature, gamma};
  CHECK(dconnet::value(programme, v.data(), z.data()) < 0.0);
  static const Vector first = v;  // of one thread
  CHECK(v == first);
}

// The walk alone, without the methods behind it: cold, and then with a new linear term from where it ended.
void test_face_walk(double slope_size) {
  subject = "face walk " + std::to_string(slope_size);
  Random random(31);
  const std::size_t rows = 300, columns = 7;
  const Vector matrix = random_design(random, rows, columns);
  const Design design(matrix.data(), rows, columns);
  ActiveGram::Changes room(rows);
  ActiveGram gram(design);
  dconnet::Face face(design, room);
  dconnet::Scratch scratch(rows);
  dconnet::FaceWalk walk(design, face, scratch, nullptr);
  dconnet::Certifier certifier(design, scratch);
  const Vector slope = random.uniforms(rows, 0.0, slope_size);
  Vector v = random.normals(columns), z(rows), multipliers(rows, 0.0);
  v.resize(design.stride(), 0.0);
  design.apply(v.data(), z.data());
  for (int change = 0; change < 20; ++change) {
    // A pull that is stronger than the slopes on one side of a random plane, so that the solution is not zero.
    const Vector plane = random.normals(columns), side = product(matrix, rows, columns, plane.data());
    Vector pull(rows);
    for (std::size_t j = 0; j < rows; ++j) pull[j] = (side[j] > 0.0 ? 1.5 : 0.3) * slope[j];
    Vector linear = transposed_product(matrix, rows, columns, pull.data());
    linear.resize(design.stride(), 0.0);
    const Programme programme{design, linear.data(), slope.data(), 0.5, 0.01};
    std::size_t steps = 0;
    CHECK(walk.solve(programme, 500, change > 0, {v.data(), z.data(), multipliers.data()}, gram, steps));
    CHECK(steps > 0);
    CHECK(certifier.certify(programme, {v.data(), z.data(), multipliers.data()}, kRounding).meets(kRounding, kRounding));
  }
}

// A walk that may end early: what it reaches is within its share of the decrease, and from there it goes on to the end.
void test_inexact_walk(double gamma) {
  subject = "inexact walk " + std::to_string(gamma);
  Random random(37);
  const std::size_t rows = 300, columns = 7;
  const double share = 0.1;
  const Vector matrix = random_design(random, rows, columns);
  const Design design(matrix.data(), rows, columns);
  ActiveGram::Changes room(rows);
  ActiveGram gram(design);
  dconnet::Face face(design, room);
  dconnet::Scratch scratch(rows);
  dconnet::FaceWalk walk(design, face, scratch, nullptr);
  dconnet::Certifier certifier(design, scratch);
  int early = 0;
  for (int trial = 0; trial < 20; ++trial) {
    const Vector slope = random.uniforms(rows, 0.0, 1.0), plane = random.normals(columns);
    const Vector side = product(matrix, rows, columns, plane.data());
    Vector pull(rows), v = random.normals(columns), z(rows), multipliers(rows, 0.0);
    for (std::size_t j = 0; j < rows; ++j) pull[j] = (side[j] > 0.0 ? 1.5 : 0.3) * slope[j];
    Vector linear = transposed_product(matrix, rows, columns, pull.data());
    linear.resize(design.stride(), 0.0);
    v.resize(design.stride(), 0.0);
    design.apply(v.data(), z.data());
    const Programme programme{design, linear.data(), slope.data(), 0.5, gamma};
    const double start = dconnet::value(programme, v.data(), z.data());
    std::size_t steps = 0;
    CHECK(walk.solve(programme, 500, false, {v.data(), z.data(), multipliers.data()}, gram, steps, {start, share}));
    early += walk.ended_early();
    const double reached = dconnet::value(programme, v.data(), z.data());
    CHECK(walk.solve(programme, 500, true, {v.data(), z.data(), multipliers.data()}, gram, steps));
    CHECK(!walk.ended_early());
    CHECK(certifier.certify(programme, {v.data(), z.data(), multipliers.data()}, kRounding).meets(kRounding, kRounding));
    const double least = dconnet::value(programme, v.data(), z.data());
    CHECK(reached - least <= share * (start - reached) + kRounding * std::fabs(start));
  }
  CHECK(early > 10);
}

// Rows that come in many copies reach their kinks together, more of them than the walk keeps in mind: it may give up,
// but what it calls solved is.
void test_face_walk_among_copies(std::size_t copies) {
  subject = "face walk among copies " + std::to_string(copies);
  Random random(static_cast<unsigned>(copies));
  const std::size_t distinct = 12, rows = distinct * copies, columns = 3;
  const Vector few = random.normals(distinct * columns);
  Vector matrix;
  for (std::size_t i = 0; i < copies; ++i) matrix.insert(matrix.end(), few.begin(), few.end());
  matrix = orthonormal(matrix, rows, columns);
  const Design design(matrix.data(), rows, columns);
  ActiveGram::Changes room(rows);
  ActiveGram gram(design);
  dconnet::Face face(design, room);
  dconnet::Scratch scratch(rows);
  dconnet::FaceWalk walk(design, face, scratch, nullptr);
  dconnet::Certifier certifier(design, scratch);
  const Vector slope = random.uniforms(rows, 0.0, 2.0);
  for (int start = 0; start < 50; ++start) {
    Vector v = random.normals(columns), z(rows), multipliers(rows, 0.0), linear = random.normals(columns);
    v.resize(design.stride(), 0.0);
    linear.resize(design.stride(), 0.0);
    for (double& entry : linear) entry *= static_cast<double>(copies);
    design.apply(v.data(), z.data());
    const Programme programme{design, linear.data(), slope.data(), 0.5, 0.01};
    std::size_t steps = 0;
    if (!walk.solve(programme, 200, false, {v.data(), z.data(), multipliers.data()}, gram, steps)) continue;
    CHECK(certifier.certify(programme, {v.data(), z.data(), multipliers.data()}, 1e-9).meets(1e-9, 1e-9));
  }
}

// Rows that are tiny have tiny z: next to those of the others these look like zero, but they are on a side of their kink.
void test_face_walk_with_tiny_rows() {
  subject = "face walk with tiny rows";
  const std::size_t rows = 60, columns = 5, tiny = 20;
  Random random(96);
  Vector matrix = random_design(random, rows, columns);
  for (std::size_t i = 0; i < tiny * columns; ++i) matrix[i] *= 1e-14;
  const Design design(matrix.data(), rows, columns);
  ActiveGram::Changes room(rows);
  ActiveGram gram(design);
  dconnet::Scratch scratch(rows);
  dconnet::Face face(design, room);
  dconnet::FaceWalk walk(design, face, scratch, nullptr);
  dconnet::Certifier certifier(design, scratch);
  for (int start = 0; start < 20; ++start) {
    Vector v = random.normals(columns), z(rows), multipliers(rows, 0.0), linear = random.normals(columns);
    v.resize(design.stride(), 0.0);
    linear.resize(design.stride(), 0.0);
    for (double& entry : linear) entry *= 10.0;
    design.apply(v.data(), z.data());
    const Vector slope = random.uniforms(rows, 0.0, 1.0);
    const Programme programme{design, linear.data(), slope.data(), 0.5, 0.1};
    std::size_t steps = 0;
    CHECK(walk.solve(programme, 200, false, {v.data(), z.data(), multipliers.data()}, gram, steps));
    CHECK(certifier.certify(programme, {v.data(), z.data(), multipliers.data()}, 1e-12).meets(1e-12, 1e-12));
  }
}

// With lengths that are no numbers there is no row to look for: the search along a direction must end all the same.
void test_face_walk_without_numbers() {
  subject = "face walk without numbers";
  const std::size_t rows = 60, columns = 5;
  Random random(95);
  const Vector matrix = random_design(random, rows, columns);
  const Design design(matrix.data(), rows, columns);
  ActiveGram::Changes room(rows);
  ActiveGram gram(design);
  dconnet::Scratch scratch(rows);
  dconnet::Face face(design, room);
  dconnet::FaceWalk walk(design, face, scratch, nullptr);
  for (const double poison : {kNaN, std::numeric_limits<double>::infinity()}) {
    Vector v = random.normals(columns), z(rows), multipliers(rows, 0.0), linear = random.normals(columns);
    v.resize(design.stride(), 0.0);
    linear.resize(design.stride(), 0.0);
    design.apply(v.data(), z.data());
    Vector slope = random.uniforms(rows, 0.0, 2.0);
    slope[static_cast<std::size_t>(std::max_element(z.begin(), z.end()) - z.begin())] = poison;
    const Programme programme{design, linear.data(), slope.data(), 0.5, 0.01};
    std::size_t steps = 0;
    CHECK(!walk.solve(programme, 200, false, {v.data(), z.data(), multipliers.data()}, gram, steps));
    CHECK(steps <= 200);
  }
}

void test_iteration_limit() {
  subject = "programme: iteration limit";
  const Case test = typical(93, 300, 20, 1e-4);
  Solver solver(test.design.data(), test.rows, test.columns);
  ActiveGram gram(solver.design());
  for (std::size_t limit : {0, 1, 2, 3, 5, 8, 13, 21}) {
    Vector v(solver.design().stride(), 0.0), z(test.rows, 0.0), multipliers(test.rows, 0.0);
    const Programme programme{solver.design(), test.linear.data(), test.slope.data(), test.curvature, test.gamma};
    CHECK(solver.solve(programme, kGap, limit, false, {v.data(), z.data(), multipliers.data()}, gram).iterations <= limit);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Sweeps.

struct Training {
  Training(std::size_t rows, std::size_t columns, std::size_t n_hidden, double gamma, double scale,
           std::size_t n_outputs = 1)
      : rows(rows), columns(columns), n_hidden(n_hidden), n_outputs(n_outputs), gamma(gamma), order(n_hidden) {
    Random random(static_cast<unsigned>(rows + columns + n_hidden));
    design = random_design(random, rows, columns);
    y = random.normals(rows * n_outputs);
    alpha = random.normals(n_hidden * n_outputs);
    for (double& value : alpha) value *= scale;
    V = random.normals(n_hidden * columns);
    for (std::size_t unit = 0; unit < n_hidden; ++unit) order[unit] = n_hidden - 1 - unit;
  }

  double objective() const {
    double value = 0.0;
    Vector Z;
    for (std::size_t unit = 0; unit < n_hidden; ++unit) {
      const Vector z = product(design, rows, columns, V.data() + unit * columns);
      Z.insert(Z.end(), z.begin(), z.end());
    }
    for (std::size_t j = 0; j < rows; ++j) {
      for (std::size_t o = 0; o < n_outputs; ++o) {
        double residual = y[j * n_outputs + o];
        for (std::size_t unit = 0; unit < n_hidden; ++unit) {
          residual -= alpha[unit * n_outputs + o] * std::max(Z[unit * rows + j], 0.0);
        }
        value += residual * residual;
      }
    }
    for (double v : V) value += gamma * v * v;
    for (double a : alpha) value += gamma * a * a;
    return value;
  }

  Sweep sweep() const { return Sweep(design.data(), rows, columns, n_hidden, n_outputs); }

  std::size_t rows, columns, n_hidden, n_outputs;
  double gamma;
  std::vector<std::size_t> order;
  Vector design, y, alpha, V;
};

constexpr Limits kLimits{50, kIterations, kGap};

// Descent, and a solution to tolerance of every programme, hold for any numbers. The method of last resort, whose room
// is allocated when it is first needed, may be called only for numbers that are not of a sane size.
void test_sweep(const std::string& name, Training training, Split split, bool sane = true) {
  subject = "sweep: " + name + (split == Split::kNet ? ", net split" : ", paper's split");
  Sweep sweep = training.sweep();
  const std::function<bool()> always = [] { return true; };
  double before = training.objective();
  Tally tally;
  int allocating = 0;
  for (int epoch = 0; epoch < 5; ++epoch) {
    const std::size_t allocated = allocations;
    const std::size_t visited = sweep.run(training.y.data(), training.alpha.data(), training.gamma,
                                          training.order.data(), split, kLimits, always, training.V.data(), tally);
    allocating += allocations != allocated;
    CHECK(visited == training.n_hidden);
    const double after = training.objective();
    CHECK_AT_MOST(after, before * (1.0 + kRounding));
    before = after;
  }
  CHECK(allocating <= (sane ? 0 : 1));
  CHECK(tally.refused == 0);
  CHECK(tally.unsolved == 0);
}

void test_sweeps(Split split) {
  test_sweep("one of everything", Training(1, 1, 1, 0.1, 1.0), split);
  test_sweep("one column", Training(30, 1, 3, 0.1, 1.0), split);
  test_sweep("square", Training(9, 9, 4, 0.1, 1.0), split);
  test_sweep("small", Training(80, 6, 5, 0.01, 1.0), split);
  test_sweep("wide", Training(60, 45, 4, 0.01, 1.0), split);
  test_sweep("larger", Training(700, 11, 8, 1e-3, 0.5), split);
  test_sweep("many rows", Training(8000, 4, 4, 1e-2, 0.5), split);
  // Over the rows near their kinks; what all rows need is made the first time that they are needed.
  test_sweep("more rows", Training(20000, 7, 3, 1e-2, 0.5), split, false);
  test_sweep("more rows and columns", Training(9000, 40, 3, 1e-3, 0.5), split, false);
  for (double gamma : {1e-8, 1e-3, 1e4}) {
    for (double alpha : {1e-8, 1e-2, 1e4}) {
      test_sweep("gamma " + std::to_string(gamma) + " alpha " + std::to_string(alpha),
                 Training(50, 5, 4, gamma, alpha), split, alpha < 1e4);
    }
  }
  for (std::size_t n_outputs : {2, 3, 8}) {
    const std::string name = std::to_string(n_outputs) + " outputs, ";
    test_sweep(name + "small", Training(80, 6, 5, 0.01, 1.0, n_outputs), split);
    test_sweep(name + "wide", Training(60, 45, 4, 0.01, 1.0, n_outputs), split);
    test_sweep(name + "many rows", Training(8000, 4, 4, 1e-2, 0.5, n_outputs), split);
  }
  Training silent(40, 4, 4, 0.01, 1.0);
  silent.alpha[1] = 0.0;
  std::fill(silent.y.begin(), silent.y.end(), 0.0);
  test_sweep("no target and an idle neuron", silent, split);
}

// Neurons that were not begun stay as they are, and the one that was left in the middle is no worse.
void test_sweep_stops_when_told() {
  subject = "sweep: stop";
  const Training start(40, 4, 5, 0.01, 1.0);
  std::size_t last = 0;
  for (std::size_t answers = 0; last < start.n_hidden; ++answers) {
    Training training = start;
    Sweep sweep = training.sweep();
    std::size_t asked = 0;
    Tally tally;
    const std::size_t done =
        sweep.run(training.y.data(), training.alpha.data(), training.gamma, training.order.data(), Split::kNet, kLimits,
                  [&] { return asked++ < answers; }, training.V.data(), tally);
    CHECK(asked <= answers + 1 + (done == start.n_hidden ? 0 : 1));
    CHECK(done >= last && done <= answers);
    CHECK_AT_MOST(training.objective(), start.objective() * (1.0 + kRounding));
    for (std::size_t place = done + 1; place < start.n_hidden; ++place) {
      const auto first = static_cast<std::ptrdiff_t>(start.order[place] * start.columns);
      const auto end = first + static_cast<std::ptrdiff_t>(start.columns);
      CHECK(std::equal(start.V.begin() + first, start.V.begin() + end, training.V.begin() + first));
    }
    last = done;
  }
}

// Targets y w' with |w| = 1 and output weights a w' pose the problems of one output, y and a. With w a unit vector this
// is so to the bit; with any other one, to rounding.
void test_one_output_in_several(const Vector& w, Split split, double tolerance) {
  subject = std::string("sweep: one output in several") + (split == Split::kNet ? ", net split" : ", paper's split");
  Training one(90, 6, 5, 0.01, 1.0), several = one;
  several.n_outputs = w.size();
  const auto spread = [&w](const Vector& values) {
    Vector all;
    for (double value : values) {
      for (double share : w) all.push_back(value * share);
    }
    return all;
  };
  several.y = spread(one.y);
  several.alpha = spread(one.alpha);
  Tally tally;
  for (Training* training : {&one, &several}) {
    Sweep sweep = training->sweep();
    for (int epoch = 0; epoch < 3; ++epoch) {
      sweep.run(training->y.data(), training->alpha.data(), training->gamma, training->order.data(), split, kLimits,
                [] { return true; }, training->V.data(), tally);
    }
  }
  double apart = 0.0;
  for (std::size_t i = 0; i < one.V.size(); ++i) apart = std::max(apart, std::fabs(several.V[i] - one.V[i]));
  CHECK_AT_MOST(apart, tolerance * largest(one.V));
}

}  // namespace

int main() {
  for (std::size_t columns : {1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 31, 64}) {
    for (std::size_t rows : {1, 2, 5, 127, 128, 129, 300}) {
      test_products(rows, columns);
      test_view(rows, columns);
      test_listed_rows(rows, columns);
    }
    test_active_gram(200, columns);
    test_kink_basis(200, columns);
    for (const double gamma : {1.0, 1e-3, 1e-6}) test_face(columns, gamma);
    for (std::size_t rows : {1, 2, 3, 4, 9, 30}) test_row_products(rows, columns);
  }
  for (std::size_t n = 1; n <= 40; ++n) {
    test_cholesky(n);
    test_symmetric_product(n);
    test_sums(n - 1);
    test_maxima_keep_nan(n);
  }
  test_cholesky_refuses();
  test_lengths();
  test_typical_programmes();
  test_degenerate_programmes();
  test_extreme_programmes();
  test_hostile_programmes();
  for (const std::size_t rows : {1, 4, 7, 30}) test_certificate_of_nan(typical(94, rows, rows < 4 ? 1 : 3));
  test_many_rows();
  test_sample();
  test_origin();
  for (const std::size_t threads : {1, 3}) {
    for (const bool tight : {false, true}) test_zero_point(tight, false, threads);
    test_zero_point(false, true, threads);
  }
  for (const double slope_size : {0.1, 1.0, 10.0}) test_face_walk(slope_size);
  for (const double gamma : {1e-3, 1e-2, 1.0}) test_inexact_walk(gamma);
  for (const std::size_t copies : {1, 2, 5, 20}) test_face_walk_among_copies(copies);
  test_face_walk_with_tiny_rows();
  test_face_walk_without_numbers();
  test_iteration_limit();
  test_sweeps(Split::kPaper);
  test_sweeps(Split::kNet);
  for (Split split : {Split::kPaper, Split::kNet}) {
    test_one_output_in_several({0.0, 1.0, 0.0}, split, 0.0);
    test_one_output_in_several({0.6, -0.8}, split, 1e-9);
  }
  test_sweep_stops_when_told();
  std::printf("%zu checks, %zu failed\n", checks, failures);
  return failures == 0 ? 0 : 1;
}
