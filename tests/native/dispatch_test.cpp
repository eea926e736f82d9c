// Tests that the kernel gives the same numbers, to the bit, with AVX2 and without, if nothing is fused, and with AVX-512
// and without, if something is: `make sanitize`.
//
// The digest that it prints is that of all numbers, to compare compilers and processors with.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <vector>

#include "dense.hpp"
#include "design.hpp"
#include "dispatch.hpp"
#include "explorer.hpp"
#include "sweep.hpp"

namespace {

using namespace dconnet;
using Vector = std::vector<double>;

std::size_t compared = 0, differing = 0;
std::uint64_t digest = 14695981039346656037u;

// Numbers from -1 to 1 that need no function of the C library.
Vector numbers(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  Vector list(count);
  for (double& value : list) value = 2.0 * random.uniform() - 1.0;
  return list;
}

void add_to_digest(const Vector& results) {
  for (const double value : results) {
    std::uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    digest = (digest ^ bits) * 1099511628211u;
  }
}

Vector computed_with(Instructions kind, const std::function<Vector()>& compute) {
  const Instructions had = instructions;
  instructions = std::min(had, kind);
  const Vector results = compute();
  instructions = had;
  return results;
}

// All ways through the kernel that there are, in pairs that must agree.
void compare(const char* what, std::size_t rows, std::size_t columns, const std::function<Vector()>& compute) {
  const auto check = [&](Instructions fast, Instructions slow, const char* with) {
    const Vector results = computed_with(slow, compute), others = computed_with(fast, compute);
    if (slow == Instructions::kPlain) add_to_digest(results);
    ++compared;
    if (std::memcmp(others.data(), results.data(), results.size() * sizeof(double)) == 0) return;
    ++differing;
    std::printf("FAILED: %s of %zu rows and %zu columns differs with %s\n", what, rows, columns, with);
  };
  check(Instructions::kAvx2, Instructions::kPlain, "AVX2");
  if (instructions == Instructions::kAvx512) check(Instructions::kAvx512, Instructions::kFma, "AVX-512");
}

struct Data {
  Data(std::size_t rows, std::size_t columns, std::size_t n_hidden, std::size_t n_outputs)
      : design(numbers(rows * columns, 1).data(), rows, columns),
        y(numbers(rows * n_outputs, 2)),
        V(numbers(n_hidden * columns, 3)),
        alpha(numbers(n_hidden * n_outputs, 4)) {}

  Design design;
  Vector y, V, alpha;
};

Vector factor(std::size_t n) {
  Vector G(n * n), x = numbers(n, 5);
  const Design design(numbers(2 * n * n, 6).data(), 2 * n, n);
  for (std::size_t k = 0; k < n; ++k) {
    for (std::size_t l = k; l < n; ++l) {
      for (std::size_t j = 0; j < 2 * n; ++j) G[k * n + l] += design.row(j)[k] * design.row(j)[l];
    }
  }
  G.push_back(cholesky(G.data(), n, n) ? 1.0 : 0.0);
  cholesky_solve(G.data(), n, n, x.data());
  G.insert(G.end(), x.begin(), x.end());
  G.push_back(dot(x.data(), x.data(), n));
  G.push_back(max_abs(x.data(), n));
  return G;
}

Vector products(std::size_t rows, std::size_t columns) {
  const Data data(rows, columns, 1, 1);
  const std::size_t stride = data.design.stride();
  Vector v(stride), z(rows), g(stride), square(rows * stride);
  for (std::size_t k = 0; k < columns; ++k) v[k] = data.V[k];
  multiply(data.design.row(0), rows, stride, v.data(), z.data());
  multiply_transposed(data.design.row(0), rows, stride, z.data(), g.data());
  multiply_rows(data.design.row(0), rows, data.design.row(0), std::min(rows, stride), stride, false, square.data());
  rotate(0.6, 0.8, std::min(rows, stride), z.data(), g.data());
  for (const Vector& list : {z, g}) square.insert(square.end(), list.begin(), list.end());
  return square;
}

Vector swept(std::size_t rows, std::size_t columns, std::size_t n_hidden, std::size_t n_outputs, Split split) {
  Data data(rows, columns, n_hidden, n_outputs);
  std::vector<std::size_t> order(n_hidden);
  for (std::size_t unit = 0; unit < n_hidden; ++unit) order[unit] = unit;
  Tally tally;
  Sweep sweep(Design::view(data.design.row(0), rows, columns), n_hidden, n_outputs);
  for (int repetition = 0; repetition < 3; ++repetition) {
    sweep.run(data.y.data(), data.alpha.data(), 0.01, order.data(), split, Limits{50, 300, 1e-10}, [] { return true; },
              data.V.data(), tally);
  }
  return data.V;
}

Vector explored(std::size_t rows, std::size_t columns, std::size_t n_hidden, std::size_t n_outputs) {
  Data data(rows, columns, n_hidden, n_outputs);
  Explorer explorer(Design::view(data.design.row(0), rows, columns), data.y.data(), 0.01, n_hidden, n_outputs,
                    Plan{1, 20, true, Hop::kRestart, 1e-2, 3, true}, 7);
  explorer.explore(300, [] { return true; }, data.V.data(), data.alpha.data());
  data.V.insert(data.V.end(), data.alpha.begin(), data.alpha.end());
  return data.V;
}

}  // namespace

int main() {
  const auto compare_training = [](std::size_t rows, std::size_t columns, std::size_t n_hidden, std::size_t n_outputs) {
    compare("sweep, paper", rows, columns, [=] { return swept(rows, columns, n_hidden, n_outputs, Split::kPaper); });
    compare("sweep, net", rows, columns, [=] { return swept(rows, columns, n_hidden, n_outputs, Split::kNet); });
    compare("search", rows, columns, [=] { return explored(rows, columns, n_hidden, n_outputs); });
  };
  for (std::size_t columns : {1, 3, 4, 7, 8, 12, 15, 16, 17, 40}) {
    compare("Cholesky factor", columns, columns, [=] { return factor(columns); });
    for (std::size_t rows : {1, 3, 63, 64, 130, 400}) {
      compare("product", rows, columns, [=] { return products(rows, columns); });
      if (rows < 63) continue;
      for (const std::size_t n_hidden : {1, 6, 9}) compare_training(rows, columns, n_hidden, 1);
    }
  }
  for (const std::size_t n_hidden : {13, 22, 30, 37, 41}) compare_training(75, 13, n_hidden, 1);
  for (const std::size_t n_outputs : {2, 4, 5, 8}) compare_training(130, 7, 6, n_outputs);
  constexpr const char* kKinds[] = {"none", "AVX2", "AVX2, fused", "AVX2, fused, AVX-512"};
  std::printf("%zu results (instructions beyond x86-64: %s), %zu differ; digest %016llx\n", compared,
              kKinds[static_cast<std::size_t>(instructions)], differing, static_cast<unsigned long long>(digest));
  return differing == 0 ? 0 : 1;
}
