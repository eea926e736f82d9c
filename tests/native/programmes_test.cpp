// Tests of convex programmes, meant to run under sanitizers: `make sanitize`. Every answer must meet the optimality conditions.
#include <string>
#include <utility>

#include "solver.hpp"
#include "testing.hpp"

namespace {

using dconnet::ActiveGram;
using dconnet::Design;
using dconnet::Programme;
using dconnet::Solver;
using Random = TestRandom;

constexpr double kRounding = 1e-12;
constexpr double kGap = 1e-10;
constexpr double kKkt = 2e-9;  // what the solver accepts, and rounding
constexpr std::size_t kIterations = 300;

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

// Numbers that are none must neither crash nor be called solved.
void test_hostile_programmes() {
  for (double poison : {kNaN, kInfinity}) {
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

}  // namespace

int main() {
  test_typical_programmes();
  test_degenerate_programmes();
  test_hostile_programmes();
  test_many_rows();
  return finish_tests();
}
