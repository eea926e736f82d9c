// Shared by the tests of the kernel: checks that are counted, random numbers, and naive products.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <string>
#include <vector>

using Vector = std::vector<double>;

const double kNaN = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

inline std::size_t checks = 0, failures = 0;
inline std::string subject;  // of the next checks, for the message

inline void check(bool holds, const char* what) {
  ++checks;
  if (holds) return;
  ++failures;
  std::printf("FAILED: %s: %s\n", subject.c_str(), what);
}

#define CHECK(condition) check(condition, #condition)
#define CHECK_AT_MOST(value, limit) check_at_most(value, limit, #value)

inline void check_at_most(double value, double limit, const char* what) {
  if (!(value <= limit)) check(false, (std::string(what) + " is " + std::to_string(value) + ", above " + std::to_string(limit)).c_str());
  else ++checks;
}

inline int finish_tests() {
  std::printf("%zu checks, %zu failed\n", checks, failures);
  return failures == 0 ? 0 : 1;
}

class TestRandom {
 public:
  explicit TestRandom(unsigned seed) : engine_(seed) {}

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

inline double largest(const Vector& values) {
  double most = 0.0;
  for (double value : values) most = std::max(most, std::fabs(value));
  return most;
}

// Of a C-contiguous matrix.
inline Vector product(const Vector& matrix, std::size_t rows, std::size_t columns, const double* v) {
  Vector z(rows, 0.0);
  for (std::size_t j = 0; j < rows; ++j) {
    for (std::size_t k = 0; k < columns; ++k) z[j] += matrix[j * columns + k] * v[k];
  }
  return z;
}

inline Vector transposed_product(const Vector& matrix, std::size_t rows, std::size_t columns, const double* w) {
  Vector g(columns, 0.0);
  for (std::size_t j = 0; j < rows; ++j) {
    for (std::size_t k = 0; k < columns; ++k) g[k] += matrix[j * columns + k] * w[j];
  }
  return g;
}

// Makes the columns orthonormal (Gram-Schmidt, twice for accuracy).
inline Vector orthonormal(Vector matrix, std::size_t rows, std::size_t columns) {
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

inline Vector random_design(TestRandom& random, std::size_t rows, std::size_t columns) {
  return orthonormal(random.normals(rows * columns), rows, columns);
}

inline std::string shape(std::size_t rows, std::size_t columns) {
  return std::to_string(rows) + "x" + std::to_string(columns);
}

