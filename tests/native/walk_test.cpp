// Tests of the walk and of the tests of the origin, meant to run under sanitizers: `make sanitize`.
#include <string>

#include "face_walk.hpp"
#include "neuron_rows.hpp"
#include "origin.hpp"
#include "testing.hpp"

namespace {

using dconnet::ActiveGram;
using dconnet::Design;
using dconnet::Programme;
using Random = TestRandom;

constexpr double kRounding = 1e-12;

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
  neuron_rows.open(&alpha, v.data(), dconnet::Split::kPaper, nullptr, sums.data(), nullptr);
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

// A walk alone, without the methods behind it, and the check of its answer.
struct WalkFixture {
  WalkFixture(const Vector& matrix, std::size_t rows, std::size_t columns)
      : design(matrix.data(), rows, columns),
        changes(rows),
        gram(design),
        face(design, changes),
        scratch(rows),
        walk(design, face, scratch),
        certifier(design, scratch),
        v(design.stride()),
        z(rows),
        multipliers(rows),
        linear(design.stride()) {}

  void start(const Vector& from) {
    std::copy(from.begin(), from.end(), v.begin());
    std::fill(multipliers.begin(), multipliers.end(), 0.0);
    design.apply(v.data(), z.data());
  }
  dconnet::Iterate at() { return {v.data(), z.data(), multipliers.data()}; }
  Programme programme(const Vector& term, const Vector& slope, double gamma) {
    std::copy(term.begin(), term.end(), linear.begin());
    return {design, linear.data(), slope.data(), 0.5, gamma};
  }
  bool solve(const Programme& of, std::size_t max_steps, bool resume = false) {
    steps = 0;
    return walk.solve(of, max_steps, resume, at(), gram, steps, {});
  }
  bool is_solved(const Programme& of, double tolerance) {
    return certifier.certify(of, at(), tolerance).meets(tolerance, tolerance);
  }

  Design design;
  ActiveGram::Changes changes;
  ActiveGram gram;
  dconnet::Face face;
  dconnet::Scratch scratch;
  dconnet::FaceWalk walk;
  dconnet::Certifier certifier;
  Vector v, z, multipliers, linear;
  std::size_t steps = 0;
};

// A linear term stronger than the slopes on one side of a random plane, so that the solution is not zero.
Vector strong_term(Random& random, const Vector& matrix, const Vector& slope, std::size_t columns) {
  const std::size_t rows = slope.size();
  const Vector plane = random.normals(columns), side = product(matrix, rows, columns, plane.data());
  Vector pull(rows);
  for (std::size_t j = 0; j < rows; ++j) pull[j] = (side[j] > 0.0 ? 1.5 : 0.3) * slope[j];
  return transposed_product(matrix, rows, columns, pull.data());
}

// Cold, and then with a new linear term from where the walk ended.
void test_face_walk(double slope_size) {
  subject = "face walk " + std::to_string(slope_size);
  Random random(31);
  const std::size_t rows = 300, columns = 7;
  const Vector matrix = random_design(random, rows, columns), slope = random.uniforms(rows, 0.0, slope_size);
  WalkFixture test(matrix, rows, columns);
  test.start(random.normals(columns));
  for (int change = 0; change < 20; ++change) {
    const Programme programme = test.programme(strong_term(random, matrix, slope, columns), slope, 0.01);
    CHECK(test.solve(programme, 500, change > 0) && test.steps > 0);
    CHECK(test.is_solved(programme, kRounding));
  }
}

// On a function with slopes of both signs, no step raises it, and the end is a local minimum: no point around it is lower.
void test_walk_down_a_function_that_is_not_convex(std::size_t rows, std::size_t columns) {
  subject = "walk that is not convex " + std::to_string(rows) + " x " + std::to_string(columns);
  Random random(97);
  const Vector matrix = random_design(random, rows, columns);
  WalkFixture test(matrix, rows, columns);
  std::size_t held = 0;
  for (int start = 0; start < 20; ++start) {
    const Vector slope = random.uniforms(rows, -2.0, 2.0);
    Programme programme = test.programme(Vector(columns, 0.0), slope, 0.05);
    programme.is_convex = false;
    test.start(random.normals(columns));
    test.gram.clear();
    bool ended = false;
    double before = dconnet::value(programme, test.at());
    for (int step = 0; step < 500 && !ended; ++step) {
      ended = test.solve(programme, 1, step > 0);
      const double after = dconnet::value(programme, test.at());
      CHECK_AT_MOST(after, before + kRounding);
      CHECK(ended || test.walk.is_out_of_steps() || largest(test.v) == 0.0);
      if (largest(test.v) == 0.0) break;
      before = after;
    }
    if (largest(test.v) == 0.0) continue;
    CHECK(ended);
    const Vector end = test.v;
    for (std::size_t j = 0; j < rows; ++j) held += std::fabs(test.z[j]) < kRounding;
    for (int trial = 0; trial < 50; ++trial) {
      Vector beside = random.normals(columns);
      for (std::size_t k = 0; k < columns; ++k) beside[k] = end[k] + 1e-6 * beside[k];
      test.start(beside);
      CHECK_AT_MOST(before, dconnet::value(programme, test.at()) + kRounding);
    }
  }
  CHECK(held > 0);
}

// With slopes that are NaN or infinite, the search along a direction must end.
void test_face_walk_without_numbers() {
  subject = "face walk without numbers";
  const std::size_t rows = 60, columns = 5;
  Random random(95);
  WalkFixture test(random_design(random, rows, columns), rows, columns);
  for (const double poison : {kNaN, kInfinity}) {
    test.start(random.normals(columns));
    Vector slope = random.uniforms(rows, 0.0, 2.0);
    slope[static_cast<std::size_t>(std::max_element(test.z.begin(), test.z.end()) - test.z.begin())] = poison;
    CHECK(!test.solve(test.programme(random.normals(columns), slope, 0.01), 200) && test.steps <= 200);
  }
}

}  // namespace

int main() {
  test_origin();
  for (const std::size_t threads : {1, 3}) {
    for (const bool tight : {false, true}) test_zero_point(tight, false, threads);
    test_zero_point(false, true, threads);
  }
  for (const double slope_size : {0.1, 1.0, 10.0}) test_face_walk(slope_size);
  test_walk_down_a_function_that_is_not_convex(40, 3);
  test_walk_down_a_function_that_is_not_convex(300, 12);
  test_face_walk_without_numbers();
  return finish_tests();
}
