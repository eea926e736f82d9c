// Tests of short fits on coded rows, meant to run under sanitizers: `make sanitize`.
#include <utility>

#include "dispatch.hpp"
#include "random.hpp"
#include "short_fit.hpp"
#include "testing.hpp"

namespace {

using namespace dconnet;

constexpr double kGamma = 0.03;
constexpr double kSingle = 2e-5;  // what single precision leaves of sums of some hundred terms

constexpr double kDouble = 1e-12;

// Coded rows with features of all kinds, and the dense design that they stand for.
struct Data {
  Data(std::size_t n_rows, std::size_t n_hidden, std::uint64_t seed)
      : n_hidden(n_hidden), weights(n_rows), y(n_rows), alpha(n_hidden) {
    using Kind = CodedFeature::Kind;
    Random random(seed);
    rows.rows = n_rows;
    rows.features = {{Kind::kLinear, 1, 1}, {Kind::kLinear, 1, 1}, {Kind::kRamps, 3, 3},
                     {Kind::kRamps, 7, 7}, {Kind::kCategory, 4, 5}, {Kind::kCategory, 2, 2}};
    const std::size_t n_columns = rows.columns();
    M.assign(n_rows * n_columns, 0.0);
    for (std::size_t j = 0; j < n_rows; ++j) {
      std::size_t first_place = 0, first_column = 0;
      for (const CodedFeature& feature : rows.features) {
        const std::size_t place = random.below(feature.places);
        const float share = static_cast<float>(feature.kind == Kind::kLinear ? random.normal() : random.uniform());
        places.push_back(static_cast<std::uint32_t>(first_place + place));
        shares.push_back(share);
        double* entries = M.data() + j * n_columns + first_column;
        if (feature.kind == Kind::kCategory) {
          if (place < feature.columns) entries[place] = 1.0;
        } else {
          for (std::size_t k = 0; k < place; ++k) entries[k] = 1.0;
          entries[place] = static_cast<double>(share);
        }
        first_place += feature.places;
        first_column += feature.columns;
      }
      M[j * n_columns + n_columns - 1] = 1.0;
      weights[j] = random.uniform() + 0.5;
      y[j] = random.normal();
    }
    rows.places = places.data();
    rows.shares = shares.data();
    rank = n_columns - 2;
    B.resize(n_columns * rank);
    for (std::size_t i = 0; i < n_columns; ++i) {
      for (std::size_t k = 0; k < rank; ++k) B[i * rank + k] = i + 1 < n_columns && k < i ? 0.0 : 0.3 * random.normal();
    }
    V.resize(n_hidden * rank);
    for (double& v : V) v = random.normal();
    for (double& a : alpha) a = random.normal();
  }

  // F and its gradient in V and alpha, one after the other, in double precision.
  double naive(Vector& gradient) const {
    const std::size_t n_columns = rows.columns();
    gradient.assign(V.size() + alpha.size(), 0.0);
    double value = 0.0;
    for (std::size_t i = 0; i < V.size(); ++i) value += kGamma * V[i] * V[i], gradient[i] = 2.0 * kGamma * V[i];
    for (std::size_t l = 0; l < n_hidden; ++l) {
      value += kGamma * alpha[l] * alpha[l];
      gradient[V.size() + l] = 2.0 * kGamma * alpha[l];
    }
    Vector q(rank), z(n_hidden);
    for (std::size_t j = 0; j < rows.rows; ++j) {
      for (std::size_t k = 0; k < rank; ++k) {
        q[k] = 0.0;
        for (std::size_t i = 0; i < n_columns; ++i) q[k] += M[j * n_columns + i] * B[i * rank + k];
      }
      double residual = y[j];
      for (std::size_t l = 0; l < n_hidden; ++l) {
        z[l] = 0.0;
        for (std::size_t k = 0; k < rank; ++k) z[l] += q[k] * V[l * rank + k];
        residual -= alpha[l] * std::max(z[l], 0.0);
      }
      value += weights[j] * residual * residual;
      for (std::size_t l = 0; l < n_hidden; ++l) {
        const double pull = -2.0 * weights[j] * residual;
        gradient[V.size() + l] += pull * std::max(z[l], 0.0);
        if (z[l] > 0.0) for (std::size_t k = 0; k < rank; ++k) gradient[l * rank + k] += pull * alpha[l] * q[k];
      }
    }
    return value;
  }

  std::size_t n_hidden, rank;
  CodedRows rows;
  std::vector<std::uint32_t> places;
  std::vector<float> shares;
  Vector M, B, weights, y, V, alpha;
};

// Takes the processor to have no more than these, as long as it lives. Fused operations round once where others round twice:
// only without them the bits are the same everywhere.
class Using {
 public:
  explicit Using(Instructions most) : had_(instructions) { instructions = std::min(had_, most); }
  ~Using() { instructions = had_; }

 private:
  Instructions had_;
};

void test_gradient(const Data& data) {
  CodedObjective objective(data.rows, data.B.data(), data.rank, data.weights.data(), data.n_hidden);
  std::vector<float> theta(objective.size()), slopes(objective.size());
  Vector gradient(data.V.size() + data.n_hidden), expected;
  objective.pack(data.V.data(), data.alpha.data(), theta.data());
  objective.pose(data.y.data(), kGamma);
  const double value = objective.gradient(theta.data(), slopes.data()), naive = data.naive(expected);
  objective.unpack(slopes.data(), gradient.data(), gradient.data() + data.V.size());
  check(std::fabs(value - naive) <= kSingle * naive, "the value is that of the dense design");
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] -= expected[i];
  check(largest(gradient) <= 10.0 * kSingle * largest(expected), "the gradient is that of the dense design");
  const auto bits_with = [&](Instructions most) {
    const Using only(most);
    const double value_there = objective.gradient(theta.data(), slopes.data());
    return std::make_pair(value_there, slopes);
  };
  check(bits_with(Instructions::kPlain) == bits_with(Instructions::kAvx2), "the same gradient without AVX2");
}

// Outputs of a network and of the one with twice the output weights.
Vector predicted(const Data& data) {
  const std::size_t columns = data.rows.columns();
  Vector U(2 * columns * data.n_hidden), alpha(2 * data.n_hidden), outputs(2 * data.rows.rows);
  for (std::size_t i = 0; i < columns; ++i) {
    for (std::size_t l = 0; l < data.n_hidden; ++l) {
      double u = 0.0;
      for (std::size_t k = 0; k < data.rank; ++k) u += data.B[i * data.rank + k] * data.V[l * data.rank + k];
      U[i * data.n_hidden + l] = U[(columns + i) * data.n_hidden + l] = u;
    }
  }
  for (std::size_t l = 0; l < alpha.size(); ++l) alpha[l] = (l < data.n_hidden ? 1.0 : 2.0) * data.alpha[l % data.n_hidden];
  predict(data.rows, U.data(), alpha.data(), 2, data.n_hidden, outputs.data());
  return outputs;
}

void test_predictions(const Data& data) {
  const Vector outputs = predicted(data);
  const auto bits_with = [&](Instructions most) {
    const Using only(most);
    return predicted(data);
  };
  check(bits_with(Instructions::kPlain) == bits_with(Instructions::kAvx2), "the same outputs without AVX2");
  Vector gradient;
  double value = data.naive(gradient), penalty = 0.0, squares = 0.0;
  for (const double v : data.V) penalty += kGamma * v * v;
  for (const double a : data.alpha) penalty += kGamma * a * a;
  bool doubled = true;
  for (std::size_t j = 0; j < data.rows.rows; ++j) {
    const double residual = data.y[j] - outputs[2 * j];
    squares += data.weights[j] * residual * residual;
    doubled = doubled && outputs[2 * j + 1] == 2.0 * outputs[2 * j];
  }
  check(std::fabs(squares + penalty - value) <= kDouble * value, "the loss of the predictions is that of the dense design");
  check(doubled, "each network has its own outputs");
}

Vector fitted(const Data& data, std::size_t evaluations, ShortFit& told) {
  CodedObjective objective(data.rows, data.B.data(), data.rank, data.weights.data(), data.n_hidden);
  Vector weights(data.V.size() + data.n_hidden);
  start_at_random(objective, data.y.data(), 7, weights.data(), weights.data() + data.V.size());
  told = fit_shortly(objective, data.y.data(), kGamma, evaluations, [] { return true; }, weights.data(),
                     weights.data() + data.V.size());
  return weights;
}

void test_fit(Data data) {
  ShortFit told, longer;
  const Vector weights = fitted(data, 20, told);
  fitted(data, 60, longer);
  check(told.evaluations <= 20 + 25, "evaluations are capped, but for the last line search");
  check(longer.value <= told.value, "more evaluations end no higher");
  std::copy(weights.begin(), weights.begin() + static_cast<std::ptrdiff_t>(data.V.size()), data.V.begin());
  std::copy(weights.begin() + static_cast<std::ptrdiff_t>(data.V.size()), weights.end(), data.alpha.begin());
  Vector gradient;
  CodedObjective objective(data.rows, data.B.data(), data.rank, data.weights.data(), data.n_hidden);
  const ShortFit more = fit_shortly(objective, data.y.data(), kGamma, 20, [] { return true; }, Vector(data.V).data(),
                                    Vector(data.alpha).data());
  check(more.value <= told.value, "a fit that goes on ends no higher than its start");
  check(std::fabs(data.naive(gradient) - told.value) <= kSingle * told.value, "the value that is told");
  const auto bits_with = [&](Instructions most) {
    const Using only(most);
    return fitted(data, 20, told);
  };
  check(bits_with(Instructions::kPlain) == bits_with(Instructions::kAvx2), "the same bits without AVX2");
}

}  // namespace

int main() {
  std::uint64_t seed = 0;
  for (std::size_t rows : {1, 5, 64, 131, 9001}) {
    for (std::size_t n_hidden : {1, 8, 9, 50, 70}) {
      const Data data(rows, n_hidden, ++seed);
      test_gradient(data);
      test_predictions(data);
      if (rows > 5 && rows < 1000) test_fit(data);
    }
  }
  return finish_tests();
}
