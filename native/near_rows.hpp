// Copies of the rows near their kinks: where rows are many, programmes are solved over these alone, with the sums over the far
// rows (`FarRows`) on top.
//
// Invariant: base_ is the Gram matrix of the far active rows, and gram_ is base_ plus that of the near rows which the face of the
// last programme has as active ones. The first n_known_ rows were part of the last programme; later ones were added since then.
#pragma once

#include <cstddef>
#include <vector>

#include "far_rows.hpp"
#include "solver.hpp"

namespace dconnet {

class NearRows {
 public:
  explicit NearRows(FarRows& far);

  void watch(const Proceed* proceed) { solver_.watch(proceed); }
  const Design& design() const { return solver_.design(); }
  std::size_t free_places() const { return far_.most_near() - design().rows(); }

  // Starts a visit with this kink direction, padded, or null; it must live as long as the visit.
  void open(const double* kinks) { kinks_ = kinks; }
  // Replaces all rows by those near a new centre.
  void take(std::size_t count);
  // Adds this many far rows, at most free_places(). False if the next programme cannot continue from the last answer.
  bool add(std::size_t count);

  // Marks the rows from `first` on that are in the tangent at v, the current point.
  void mark(std::size_t first, const double* v);
  // Solves the programme with this linear term over the near rows, from v, and replaces v by the answer. With `next`,
  // v is the last answer, and the centre is the same.
  Outcome solve(const double* linear, double curvature, double gamma, double tolerance, std::size_t max_iterations,
                bool next, double* v);

  // Walks downhill on O itself, likewise.
  Outcome descend(double curvature, double gamma, std::size_t max_steps, bool next, double* v);

  // O at a point, from the near rows and the sums over the far ones.
  struct Values {
    double hinges, convex_hinges, largest;  // see `PassSum`, the last over the near rows
    std::size_t changed;                    // rows that are not on the side that the current tangent has them on
    double cancelling;                      // slopes that cancel in O, times z
    double lift;                            // what rows lift the majoriser off O that are negative by noise, but active
  };
  // Writes the tangent there as well.
  Values evaluate(const double* v, double curvature, double* tangent);
  // Makes the point of the last `evaluate` the current one.
  void accept() { marks_.swap(trial_marks_); }

 private:
  PackedRows places_from(std::size_t first, std::size_t count);

  FarRows& far_;
  Solver solver_;                               // over the near rows
  SharedProducts products_;
  ActiveGram gram_;                             // of the active rows, the others included
  std::vector<double> base_, last_base_;        // the Gram matrix of the others
  std::size_t n_known_ = 0;
  std::vector<double> linear_, product_;        // columns
  const double* kinks_ = nullptr;
  std::vector<double> beta_g_, beta_h_, net_, z_, multipliers_, weights_;  // near rows; net_ = beta_g_ - beta_h_
  std::vector<double> kink_norms_;              // near rows: norms, negative where a row at its kink is not active
  std::vector<unsigned char> active_;           // near rows: what they were when they were far
  std::vector<unsigned char> marks_, trial_marks_;  // near rows: one if it is in the tangent at the current or trial point
};

}  // namespace dconnet
