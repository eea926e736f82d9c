// Tests of the kernel's search over whole networks, meant to run under sanitizers: `make sanitize`.
#include <memory>
#include <random>
#include <utility>

#include "explorer.hpp"
#include "lbfgs.hpp"
#include "leaves.hpp"
#include "newcomer.hpp"
#include "objective.hpp"
#include "testing.hpp"

namespace {

using namespace dconnet;

bool close(double a, double b, double tolerance) { return std::fabs(a - b) <= tolerance * (1.0 + std::fabs(b)); }

// Data of a training problem, with columns of length one.
struct Data {
  Data(std::size_t rows, std::size_t columns, std::size_t n_hidden, std::size_t n_outputs, std::uint64_t seed)
      : rows(rows), columns(columns), n_hidden(n_hidden), n_outputs(n_outputs), values(rows * columns),
        y(rows * n_outputs), V(n_hidden * columns), alpha(n_hidden * n_outputs) {
    Random random(seed);
    for (double& value : values) value = random.normal() / std::sqrt(static_cast<double>(rows));
    for (std::size_t j = 0; j < rows; ++j) {
      for (std::size_t o = 0; o < n_outputs; ++o) {
        y[j * n_outputs + o] = std::fabs(values[j * columns + o % columns]) + 0.01 * random.normal();
      }
    }
    for (double& value : V) value = random.normal();
    for (double& value : alpha) value = random.normal();
  }

  Design design() const { return Design(values.data(), rows, columns); }

  double output(std::size_t unit, std::size_t row) const {
    double z = 0.0;
    for (std::size_t k = 0; k < columns; ++k) z += values[row * columns + k] * V[unit * columns + k];
    return std::max(z, 0.0);
  }

  Vector residual() const {
    Vector r = y;
    for (std::size_t j = 0; j < rows; ++j) {
      for (std::size_t unit = 0; unit < n_hidden; ++unit) {
        const double active = output(unit, j);
        for (std::size_t o = 0; o < n_outputs; ++o) r[j * n_outputs + o] -= alpha[unit * n_outputs + o] * active;
      }
    }
    return r;
  }

  double naive_value(double gamma) const {
    double sum = 0.0;
    for (double r : residual()) sum += r * r;
    for (double v : V) sum += gamma * v * v;
    for (double a : alpha) sum += gamma * a * a;
    return sum;
  }

  std::size_t rows, columns, n_hidden, n_outputs;
  Vector values, y, V, alpha;
};

constexpr double kGamma = 1e-3;

struct Case {
  explicit Case(const Data& data, double gamma = kGamma)
      : design(data.design()),
        objective(design, data.y.data(), gamma, data.n_hidden, data.n_outputs, team),
        theta(objective.layout().size()) {
    objective.layout().pack(data.V.data(), data.alpha.data(), theta.data());
  }

  Team team;
  Design design;
  Objective objective;
  Vector theta;
};

void test_objective(const Data& data) {
  Case subject(data);
  Vector gradient(subject.theta.size()), slopes(subject.theta.size());
  const double value = subject.objective.gradient(subject.theta.data(), gradient.data());
  check(close(value, data.naive_value(kGamma), 1e-12), "value against naive sums");
  check(subject.objective.value(subject.theta.data()) == value, "value alone");
  const double step = 1e-6;
  for (std::size_t i = 0; i < subject.theta.size(); ++i) {
    Vector up = subject.theta, down = subject.theta;
    const std::size_t unit = i % subject.objective.layout().width;
    const bool padding = unit >= data.n_hidden || (i / subject.objective.layout().width >= data.columns &&
                                                   i < subject.objective.layout().stride * subject.objective.layout().width);
    if (padding) {
      check(gradient[i] == 0.0, "gradient of the padding");
      continue;
    }
    up[i] += step;
    down[i] -= step;
    const double slope = (subject.objective.gradient(up.data(), slopes.data()) -
                          subject.objective.gradient(down.data(), slopes.data())) / (2.0 * step);
    check(close(gradient[i], slope, 1e-4), "gradient against differences");
  }
}

void test_output_weights(const Data& data) {
  Case subject(data);
  const Layout& layout = subject.objective.layout();
  Vector gradient(subject.theta.size()), costs(data.n_hidden);
  subject.objective.solve_output_weights(subject.theta.data());
  const double value = subject.objective.gradient(subject.theta.data(), gradient.data());
  for (std::size_t i = 0; i < data.n_outputs * layout.width; ++i) {
    check(std::fabs(layout.alpha(gradient.data())[i]) < 1e-10, "output weights are stationary");
  }
  subject.objective.removal_costs(subject.theta.data(), costs.data());
  for (std::size_t unit = 0; unit < data.n_hidden; ++unit) {
    Vector without = subject.theta;
    layout.scale(without.data(), unit, 0.0, 0.0);
    subject.objective.solve_output_weights(without.data());
    check(close(subject.objective.value(without.data()) - value, costs[unit], 1e-9), "cost of a removal");
  }
}

// The sum over leaves [first, end), which halves at the largest power of two.
double halved_sum(const Vector& parts, std::size_t first, std::size_t end) {
  if (end - first == 1) return parts[first];
  std::size_t half = 1;
  while (2 * half < end - first) half *= 2;
  return halved_sum(parts, first, first + half) + halved_sum(parts, first + half, end);
}

// Processes that hold some of the leaves have sums of blocks of which the sum over all leaves is made.
void test_leaf_tree() {
  Random random(3);
  for (std::size_t leaves = 1; leaves < 40; ++leaves) {
    Vector parts(leaves);
    for (double& part : parts) part = random.normal();
    LeafSums all(leaves, 1);
    for (std::size_t i = 0; i < leaves; ++i) *all.part(i) = parts[i];
    double total;
    all.merge(&total);
    check(total == halved_sum(parts, 0, leaves), "sum over all leaves");
    const std::size_t first = random.below(leaves);
    LeafSums some(leaves - first, 1);
    for (std::size_t i = first; i < leaves; ++i) *some.part(i - first) = parts[i];
    const LeafTree& tree = some.blocks(first);
    std::size_t next = first;
    for (std::size_t i = 0; i < tree.blocks().size(); ++i) {
      const LeafTree::Block block = tree.blocks()[i];
      const std::size_t length = std::size_t{1} << block.level;
      check(block.first == next && block.first % length == 0, "blocks follow each other, each at a multiple of its length");
      check(tree.values()[i] == halved_sum(parts, block.first, block.first + length), "sum over a block");
      next += length;
    }
    check(next == leaves, "blocks cover all leaves");
  }
}

void test_newcomer(const Data& data) {
  Case subject(data);
  const Layout& layout = subject.objective.layout();
  layout.scale(subject.theta.data(), 0, 0.0, 0.0);
  const double before = subject.objective.value(subject.theta.data());
  Newcomer newcomer(subject.objective);
  Random random(1);
  if (!newcomer.seek(subject.theta.data(), random)) return check(false, "a useful neuron exists");
  layout.place(subject.theta.data(), 0, newcomer.direction(), newcomer.output(), newcomer.weight());
  const double after = subject.objective.value(subject.theta.data());
  check(close(before - after, newcomer.decrease(), 1e-9), "the decrease that is reported");
  check(newcomer.decrease() > 0.0, "a useful neuron lowers F");
  // No other output weights of the same size are as useful for this direction.
  for (int trial = 0; trial < 20; ++trial) {
    Vector output(data.n_outputs);
    for (double& value : output) value = random.normal();
    const double length = std::sqrt(dot(output.data(), output.data(), data.n_outputs));
    for (double& value : output) value /= length;
    layout.place(subject.theta.data(), 0, newcomer.direction(), output.data(), newcomer.weight());
    check(subject.objective.value(subject.theta.data()) >= after * (1.0 - 1e-12), "the best output weights");
  }
  Case dear(data, 1e6);
  check(!Newcomer(dear.objective).seek(dear.theta.data(), random), "nothing is useful at a huge penalty");
}

void test_lbfgs(const Data& data) {
  Case subject(data);
  Lbfgs search(subject.objective, 5);
  search.start(subject.theta.data());
  double last = search.value();
  for (int i = 0; i < 40; ++i) {
    search.run(1, [] { return true; });
    check(search.value() <= last, "L-BFGS descends");
    last = search.value();
  }
  check(close(subject.objective.value(search.theta()), last, 1e-12), "L-BFGS knows its value");
}

void test_explorer(Data data, Hop hop) {
  Explorer explorer(data.design(), data.y.data(), kGamma, data.n_hidden, data.n_outputs,
                    {4, 0, true, hop, 0.01, 3, true}, 7);
  double last = data.naive_value(kGamma);
  for (int round = 0; round < 30; ++round) {
    const Exploration told =
        explorer.explore(200, [] { return true; }, data.V.data(), data.alpha.data());
    const double value = data.naive_value(kGamma);
    check(value <= last * (1.0 + 1e-12), "exploring never raises F");
    check(told.evaluations > 0, "work is counted");
    last = value;
  }
  check(explorer.settled(), "hops end");
  const Vector V = data.V, alpha = data.alpha;
  explorer.explore(200, [] { return false; }, data.V.data(), data.alpha.data());
  check(data.V == V && data.alpha == alpha, "nothing moves after a stop");
}

// The same to the bit, whoever does which leaf.
void test_team(const Data& data) {
  std::vector<Vector> found;
  for (std::size_t size : {1, 2, 3, 7}) {
    Data at = data;
    Explorer explorer(at.design(), at.y.data(), kGamma, at.n_hidden, at.n_outputs, {2, 20, true, Hop::kPerturb, 0.5, 3, true},
                      7, std::make_shared<Team>(size));
    for (int round = 0; round < 3; ++round) explorer.explore(60, [] { return true; }, at.V.data(), at.alpha.data());
    at.V.insert(at.V.end(), at.alpha.begin(), at.alpha.end());
    found.push_back(at.V);
  }
  for (const Vector& weights : found) check(weights == found.front(), "threads change no bit");
}

void test_twister() {
  for (std::uint64_t seed : {std::uint64_t{5489}, std::uint64_t{0}, ~std::uint64_t{0}}) {
    Twister ours(seed);
    std::mt19937_64 theirs(seed);
    bool same = true;
    for (int i = 0; i < 2000; ++i) same &= ours() == theirs();
    check(same, "the generator of the standard");
  }
}

}  // namespace

// With an argument, only what threads share: `make sanitize-threads`.
int main(int arguments, char**) {
  test_team(Data(10'000, 3, 4, 1, 2000));
  test_team(Data(10'000, 3, 4, 2, 2001));
  if (arguments > 1) return finish_tests();
  test_leaf_tree();
  std::uint64_t seed = 0;
  for (std::size_t rows : {1, 3, 64, 70, 129}) {
    for (std::size_t columns : {1, 4, 7}) {
      for (std::size_t n_hidden : {1, 4, 9, 12}) {
        for (std::size_t n_outputs : {1, 2, 4, 7}) {
          const Data data(rows, columns, n_hidden, n_outputs, ++seed);
          test_objective(data);
          test_output_weights(data);
          test_lbfgs(data);
        }
      }
    }
  }
  for (std::size_t n_outputs : {1, 3}) {
    const Data data(90, 5, 6, n_outputs, 1000);
    test_newcomer(data);
    for (Hop hop : {Hop::kNone, Hop::kPerturb, Hop::kRestart}) test_explorer(data, hop);
  }
  test_twister();
  return finish_tests();
}
