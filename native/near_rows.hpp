// The rows about their kinks, packed together: where rows are many, programmes are solved over these alone, with the sums
// over the others (`FarRows`) on top.
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
  // Takes over the rows that are near a new centre.
  void take(std::size_t count);
  // Takes over as many further rows, where there is room. False if the next programme cannot go on from the last answer.
  bool add(std::size_t count);

  // Marks the rows from `first` on that are in the tangent at v, the point at hand.
  void mark(std::size_t first, const double* v);
  // Solves the programme with this linear term over the near rows, from v, and replaces v by the answer. With `next`,
  // v is the last answer, and the centre is the same.
  Outcome solve(const double* linear, double curvature, double gamma, double tolerance, std::size_t max_iterations,
                bool next, double* v);

  // What the near rows and the sums over the others tell of a point.
  struct Values {
    double hinges, convex_hinges, largest;  // see `PassSum`, the last over the near rows
    std::size_t changed;                    // rows that the tangent at hand has on the other side
    double cancelling;                      // slopes that cancel in O, times z
    double lift;                            // what rows lift the majoriser off O that are negative by noise, but active
  };
  // With the tangent there.
  Values evaluate(const double* v, double curvature, double* tangent);
  // The point that was looked at last becomes the one at hand.
  void accept() { marks_.swap(trial_marks_); }
  // The gradient of the convex part at v, without its penalty.
  void convex_pull(const double* v, double curvature, double* pull);

 private:
  PackedRows places_from(std::size_t first, std::size_t count);

  FarRows& far_;
  Solver solver_;                               // over the near rows
  SharedProducts products_;
  ActiveGram gram_;                             // of the active rows, the others included
  std::vector<double> base_, last_base_;        // the Gram matrix of the others
  std::size_t n_known_ = 0;                     // rows that the last programme had
  std::vector<double> linear_, product_;        // columns
  const double* kinks_ = nullptr;
  std::vector<double> beta_g_, beta_h_, z_, multipliers_, weights_;  // near rows
  std::vector<double> kink_norms_;              // near rows: norms, negative where a row at its kink is not active
  std::vector<unsigned char> active_;           // near rows: what they were when they were far
  std::vector<unsigned char> marks_, trial_marks_;  // near rows: whether in the tangent at hand, and where looked at last
};

}  // namespace dconnet
