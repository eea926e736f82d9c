// Tests of boosted trees, meant to run under sanitizers: `make sanitize`.
#include "boosting.hpp"
#include "testing.hpp"

namespace {

using namespace dconnet;

constexpr std::size_t kRows = 400, kColumns = 3, kRounds = 20, kLeaves = 7;

struct Grown {
  explicit Grown(std::size_t n_outputs)
      : columns(size(n_outputs)), children(2 * size(n_outputs)), roots(kRounds * n_outputs), thresholds(size(n_outputs)),
        values(size(n_outputs)) {}

  static std::size_t size(std::size_t n_outputs) { return kRounds * n_outputs * (2 * kLeaves - 1); }

  std::vector<std::int32_t> columns, children, roots;
  Vector thresholds, values;
};

struct Data {
  explicit Data(unsigned seed) : random(seed), X(random.normals(kRows * kColumns)), weights(random.uniforms(kRows, 0.0, 2.0)) {
    for (std::size_t j = 0; j < kRows; ++j) {
      if (j % 5 == 0) X[j * kColumns + 1] = kNaN;
      X[j * kColumns + 2] = std::round(X[j * kColumns + 2]);
      signal.push_back(X[j * kColumns] + (j % 5 == 0 ? 1.0 : 0.0));
    }
  }

  TestRandom random;
  Vector X, weights, signal;
};

double loss_of(BoostingLoss loss, const Data& data, const Vector& target, const Vector& outputs, std::size_t n_outputs) {
  double sum = 0.0;
  for (std::size_t j = 0; j < kRows; ++j) {
    const double* own = outputs.data() + j * n_outputs;
    double value = 0.0;
    if (loss == BoostingLoss::kSquared) value = 0.5 * (own[0] - target[j]) * (own[0] - target[j]);
    else if (loss == BoostingLoss::kGamma) value = own[0] + target[j] * std::exp(-own[0]);
    else if (n_outputs == 1) value = std::log1p(std::exp(own[0])) - target[j] * own[0];
    else {
      for (std::size_t k = 0; k < n_outputs; ++k) value += std::exp(own[k]);
      value = std::log(value) - own[static_cast<std::size_t>(target[j])];
    }
    sum += data.weights[j] * value;
  }
  return sum;
}

void test_loss_falls(BoostingLoss loss, std::size_t n_outputs) {
  Data data(1);
  Vector target(data.signal), baseline(n_outputs, 0.0);
  for (double& y : target) {
    if (loss == BoostingLoss::kGamma) y = std::exp(y);
    if (loss == BoostingLoss::kLogistic) y = y < 0.0 ? 0.0 : n_outputs == 1 || y < 0.8 ? 1.0 : 2.0;
  }
  BoostingOptions options;
  options.loss = loss;
  options.n_rounds = kRounds;
  options.n_leaves = kLeaves;
  options.min_leaf = 5;
  options.n_bins = 31;
  Grown grown(n_outputs);
  const std::size_t n_nodes =
      boost({data.X.data(), kRows, kColumns, target.data(), data.weights.data()}, options, baseline.data(), n_outputs,
            [](std::size_t) { return true; },
            {grown.columns.data(), grown.thresholds.data(), grown.children.data(), grown.values.data(), grown.roots.data()});
  CHECK(n_nodes > kRounds * n_outputs && n_nodes <= grown.values.size());
  const std::size_t ends[] = {0, 5, kRounds};
  Vector outputs(kRows * 3 * n_outputs);
  add_trees({grown.columns.data(), grown.thresholds.data(), grown.children.data(), grown.values.data()}, grown.roots.data(), ends,
            3, n_outputs, data.X.data(), kRows, kColumns, outputs.data());
  double last = kInfinity;
  for (std::size_t e = 0; e < 3; ++e) {
    Vector own;
    for (std::size_t j = 0; j < kRows; ++j) {
      for (std::size_t k = 0; k < n_outputs; ++k) own.push_back(outputs[(j * 3 + e) * n_outputs + k]);
    }
    const double now = loss_of(loss, data, target, own, n_outputs);
    CHECK_AT_MOST(now, 0.95 * last);
    last = now;
  }
}

// More rows than one block of sums: the steps of a staircase are found, and the leaves have the means of their rows.
void test_many_rows() {
  constexpr std::size_t kMany = 50'000, kSteps = 4;
  Vector X(kMany), target(kMany), weights(kMany, 1.0);
  for (std::size_t j = 0; j < kMany; ++j) {
    X[j] = static_cast<double>(j % 100);
    target[j] = std::floor(X[j] / 25.0);
  }
  BoostingOptions options;
  options.n_rounds = 1;
  options.n_leaves = kSteps;
  options.learning_rate = 1.0;
  options.leaf_penalty = 0.0;
  Grown grown(1);
  const double baseline = 1.5;
  const std::size_t n_nodes =
      boost({X.data(), kMany, 1, target.data(), weights.data()}, options, &baseline, 1, [](std::size_t) { return true; },
            {grown.columns.data(), grown.thresholds.data(), grown.children.data(), grown.values.data(), grown.roots.data()});
  CHECK(n_nodes == 2 * kSteps - 1);
  const std::size_t end = 1;
  Vector outputs(kMany, baseline);
  add_trees({grown.columns.data(), grown.thresholds.data(), grown.children.data(), grown.values.data()}, grown.roots.data(), &end,
            1, 1, X.data(), kMany, 1, outputs.data());
  double worst = 0.0;
  for (std::size_t j = 0; j < kMany; ++j) worst = std::max(worst, std::abs(outputs[j] - target[j]));
  CHECK_AT_MOST(worst, 1e-6);
}

// Stops before any tree, and between the trees of a round.
void test_stop() {
  Data data(2);
  BoostingOptions options;
  options.loss = BoostingLoss::kLogistic;
  options.n_rounds = kRounds;
  options.n_leaves = kLeaves;
  Vector target(data.signal);
  for (double& y : target) y = y < 0.0 ? 0.0 : y < 0.8 ? 1.0 : 2.0;
  Grown grown(3);
  const Vector baseline(3, 0.0);
  for (const std::size_t n_trees : {0, 4}) {
    std::size_t last = 0;
    const std::size_t n_nodes = boost(
        {data.X.data(), kRows, kColumns, target.data(), data.weights.data()}, options, baseline.data(), 3,
        [&](std::size_t n_done) {
          last = n_done;
          return n_done < n_trees;
        },
        {grown.columns.data(), grown.thresholds.data(), grown.children.data(), grown.values.data(), grown.roots.data()});
    CHECK(n_nodes == 0);
    CHECK(last == n_trees);
  }
}

}  // namespace

int main() {
  subject = "squared loss";
  test_loss_falls(BoostingLoss::kSquared, 1);
  subject = "gamma loss";
  test_loss_falls(BoostingLoss::kGamma, 1);
  subject = "two classes";
  test_loss_falls(BoostingLoss::kLogistic, 1);
  subject = "three classes";
  test_loss_falls(BoostingLoss::kLogistic, 3);
  subject = "many rows";
  test_many_rows();
  subject = "stop";
  test_stop();
  return finish_tests();
}
