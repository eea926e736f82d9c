// Primal-dual interior-point method (Mehrotra) for the convex programme.
//
// With s_j for max(z_j, 0), the constraints are s - Q v >= 0 (slack w, multiplier lambda) and s >= 0 (multiplier mu).
// Slower than the augmented Lagrangian but indifferent to degenerate programmes: it is what the solver falls back on.
#pragma once

#include <cstddef>
#include <vector>

#include "programme.hpp"

namespace dconnet {

class InteriorPoint {
 public:
  explicit InteriorPoint(const Design& design);

  // Solves a programme in units of order one to a relative duality gap; returns the number of iterations. The answer
  // is written to v and multipliers.
  std::size_t solve(const Programme& programme, double tolerance, std::size_t max_iterations, double* v,
                    double* multipliers, Certifier& certifier);

 private:
  struct Point {
    Point(std::size_t rows, std::size_t stride) : v(stride), s(rows), w(rows), lambda(rows), mu(rows) {}
    std::vector<double> v, s, w, lambda, mu;
  };

  void start(const Programme& programme);
  bool factorise(const Programme& programme);
  void predict(const Programme& programme);
  void correct(const Programme& programme, double target);
  void direction(const Programme& programme);
  double longest_step() const;
  double complementarity(double step) const;
  void move(double step);

  const Design& design_;
  Point point_, step_;
  std::vector<double> lambda_over_w_, mu_over_s_, diagonal_, weight_;  // rows
  std::vector<double> change_lambda_, change_mu_, pull_;               // rows
  std::vector<double> residual_, pulled_, schur_;                      // columns
  std::vector<Row> all_rows_;
};

}  // namespace dconnet
