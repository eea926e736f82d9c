// The solver of convex programmes over one design: units, choice of method, and the check of the answer.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "active_set.hpp"
#include "augmented_lagrangian.hpp"
#include "face_walk.hpp"
#include "interior_point.hpp"
#include "origin.hpp"
#include "programme.hpp"

namespace dconnet {

struct Outcome {
  std::size_t iterations;
  bool converged;  // to the tolerance in both the duality gap and the optimality conditions
};

class Sample;

class Solver {
 public:
  // A sample of the rows makes programmes with many rows easier.
  explicit Solver(Design design, bool sampled = true);
  ~Solver();
  Solver(const double* design, std::size_t rows, std::size_t columns) : Solver(Design(design, rows, columns)) {}
  Solver(const Solver&) = delete;  // its parts refer to its own design
  Solver& operator=(const Solver&) = delete;

  const Design& design() const { return design_; }
  // Goes on with the listed rows of another design, for which there must be room.
  void take_rows(const Design& from, const Row* rows, std::size_t count);
  // Forgets the last programme.
  void forget();
  // Free between two programmes.
  Scratch& scratch() { return scratch_; }

  // Solves one programme. On entry `v`, `z` = Q v and `multipliers` hold a start, on return the answer; v has
  // design().stride() entries. `gram` may hold any set of rows: best those of a solution that is like this one. With
  // `next`, the programme differs from the last one in its linear term only, and the start is the last answer. An answer
  // that is `enough` counts as converged; only the walk can end with one.
  Outcome solve(const Programme& programme, double tolerance, std::size_t max_iterations, bool next, double* v,
                double* z, double* multipliers, ActiveGram& gram, const Enough& enough = {});

 private:
  bool is_exact(const Programme& programme, const double* v, const double* z, const double* multipliers);
  void shorten(const Programme& programme, double* v, double* z) const;
  bool walk(const Programme& programme, std::size_t max_iterations, bool resume, double* v, double* z,
            double* multipliers, ActiveGram& gram, std::size_t& used, const Enough& enough);
  bool settle_at_zero(const Programme& programme, double tolerance, std::size_t max_rounds, double* v, double* z,
                      double* multipliers, std::size_t& rounds);
  Outcome solve_in_units(const Programme& programme, double tolerance, std::size_t max_iterations, double* v,
                         double* z, double* multipliers, ActiveGram& gram);
  Outcome escalate(const Programme& programme, double tolerance, std::size_t max_iterations, double* z,
                   double* multipliers, ActiveGram& gram);

  Design design_;
  ActiveGram::Room room_;
  Scratch scratch_;
  Face face_;
  std::unique_ptr<Sample> sample_;
  ActiveSet active_set_;
  FaceWalk face_walk_;
  bool walked_ = false;  // to the last answer
  Origin origin_;
  AugmentedLagrangian augmented_lagrangian_;
  std::unique_ptr<InteriorPoint> interior_point_;  // hardly ever needed, and large: made the first time it is
  Certifier certifier_;
  std::vector<double> linear_, slope_, v_;         // in units of order one
  std::vector<double> kept_v_, kept_multipliers_;  // the better answer, while another one is tried
};

}  // namespace dconnet
