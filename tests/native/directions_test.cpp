// Tests of the searches for the most useful new neuron against each other and against samples, meant to run under
// sanitizers: `make sanitize`.

#include "arrangement.hpp"
#include "cone_search.hpp"
#include "random.hpp"
#include "testing.hpp"

namespace {

using namespace dconnet;

bool always() { return true; }

double value(const Vector& Q, const Vector& r, const double* v, std::size_t columns) {
  double sum = 0.0, square = 0.0;
  for (std::size_t k = 0; k < columns; ++k) square += v[k] * v[k];
  for (std::size_t j = 0; j < r.size(); ++j) {
    double z = 0.0;
    for (std::size_t k = 0; k < columns; ++k) z += Q[j * columns + k] * v[k];
    sum += r[j] * std::max(z, 0.0);
  }
  return std::fabs(sum) / std::sqrt(square);
}

Vector normals(std::size_t count, Random& random) {
  Vector numbers(count);
  for (double& each : numbers) each = random.normal();
  return numbers;
}

double largest_sample(const Vector& Q, const Vector& r, std::size_t columns, Random& random) {
  double largest = 0.0;
  for (int sample = 0; sample < 2000; ++sample) {
    largest = std::max(largest, value(Q, r, normals(columns, random).data(), columns));
  }
  return largest;
}

double by_enumeration(const Vector& Q, const Vector& r) {
  Vector values(r.size()), directions(3 * r.size());
  Arrangement arrangement(Q.data(), r.size());
  check(arrangement.search(r.data(), 0.0, always, values.data(), directions.data()), "the sphere is searched");
  for (std::size_t i = 0; i < r.size(); ++i) {
    check(std::fabs(values[i] - value(Q, r, &directions[3 * i], 3)) <= 1e-9, "values belong to their directions");
  }
  return *std::max_element(values.begin(), values.end());
}

void test_both_agree(std::size_t rows, bool on_a_grid, Random& random) {
  Vector Q = normals(3 * rows, random);
  if (on_a_grid) {
    for (double& each : Q) each = std::round(each);
  }
  const Vector r = normals(rows, random);
  const double largest = by_enumeration(Q, r);
  ConeSearch search(Q.data(), r.data(), rows, 3);
  check(search.run(1e-6, 0.0, 1000000, 1000000, always), "branch and bound ends");
  check(search.best() <= largest * (1.0 + 1e-9), "enumeration finds the largest");
  check(search.bound() >= largest * (1.0 - 1e-12), "the bound is above it");
  check(search.bound() <= search.best() * (1.0 + 2e-6), "the gap is closed");
  check(largest >= largest_sample(Q, r, 3, random), "no sample is larger");
}

void test_limits(std::size_t columns, Random& random) {
  const Vector Q = normals(30 * columns, random), r = normals(30, random);
  ConeSearch search(Q.data(), r.data(), 30, columns);
  check(std::isinf(search.bound()), "without a look there is no bound");
  const double sample = largest_sample(Q, r, columns, random);
  double last = search.bound();
  for (const std::size_t most : {std::size_t{0}, std::size_t{500}, std::size_t{3000}}) {
    search.run(1e-9, 0.0, most, 1000000, always);
    check(search.bound() >= sample, "the bound holds whenever the search ends");
    check(search.bound() <= last, "more parts are not worse");
    last = search.bound();
  }
}

}  // namespace

int main() {
  Random random(7);
  for (const std::size_t rows : {3, 4, 10, 40}) test_both_agree(rows, false, random);
  for (const std::size_t rows : {10, 20, 40}) test_both_agree(rows, true, random);
  for (std::size_t columns = 2; columns <= ConeSearch::kMostColumns; ++columns) test_limits(columns, random);
  return finish_tests();
}
