// Walk downhill from face to face to the solution of the convex programme, or to a local minimum of one that is not convex.
//
// Each step goes towards the minimiser on the current face, as far as the programme falls: past the kinks of some rows, and up
// to the kink of one that is held there from then on. At the minimiser, rows whose forces are outside of their bounds are
// released. The programme never rises, so that the walk can cycle only where many rows are at their kinks in one point. Rows with
// negative slopes have concave kinks: they are passed, and never held.
//
// Invariants between steps: `at.v` is a point of the face, whose rows at their kinks are exactly the held ones (`Face::kinks`).
// Rows in grounded_ have z = 0 but are not held: the next step either moves them off their kinks, or takes them across at once.
// fresh_ are the rows that were held since the last minimiser; they are not released before the next one.
#pragma once

#include <cstddef>
#include <vector>

#include "crossings.hpp"
#include "face.hpp"
#include "screen.hpp"

namespace dconnet {

class FaceWalk {
 public:
  // The team, if there is one, shares products with many rows.
  FaceWalk(const Design& design, Face& face, Scratch& scratch, Team* team = nullptr);

  // Sets the function that is asked now and then whether to proceed; null means always.
  void watch(const Proceed* proceed) { proceed_ = proceed; }
  const double* norms() const { return screen_.norms(); }
  // The design has other rows than before, from this one on.
  void measure_rows(std::size_t first) { screen_.measure_rows(first); }

  // Replaces a start by the answer, if one is found within `max_steps`, and by where the walk ended otherwise. Adds the number
  // of steps to `steps`. With `resume`, the start is where the last walk ended, and the programme differs from the last one in
  // its linear term only. Ends early where an answer is `enough`.
  bool solve(const Programme& programme, std::size_t max_steps, bool resume, const Iterate& at, ActiveGram& gram,
             std::size_t& steps, const Enough& enough = {});
  // Whether the last walk ended early.
  bool ended_early() const { return ended_early_; }
  // Whether it ended only because `max_steps` were made, so that it can be resumed.
  bool is_out_of_steps() const { return out_of_steps_; }

 private:
  struct Release {
    std::size_t row;
    Side side;
    double wrong;  // by how much its force was outside of its bounds
  };

  bool start(const Programme& programme, const Iterate& at, ActiveGram& gram);
  bool step(const Programme& programme, const Iterate& at);
  double lower_bound(const Programme& programme);
  void leave_start(const Programme& programme, const Iterate& at) const;
  bool leads_to_zero(const double* v) const;
  bool end_at_zero(double* v);
  Stop search(const Programme& programme, const Iterate& at);
  void keep_on_side(std::size_t place);
  std::size_t most_grounded() const { return 2 * design_.columns(); }
  void ground(std::size_t row);
  void collect_crossings(double limit);
  bool change_sides(const Stop& stop);
  Release release_of(const Programme& programme, std::size_t kink) const;
  bool release(const Programme& programme);
  bool settle_releases(const double* v);
  bool hold_wrong_releases(const double* v);

  const Design& design_;
  Face& face_;
  Scratch& scratch_;
  const Proceed* proceed_ = nullptr;
  std::vector<Side> sides_;
  Screen screen_;                      // which rows to evaluate
  Crossings crossings_;
  std::vector<double> direction_;      // columns
  double last_move_ = 0.0;
  double noise_ = 0.0;  // size of v that counts as zero
  std::vector<std::size_t> grounded_;
  bool degenerate_ = false;         // more grounded rows than most_grounded(), or v is zero: the walk gives up
  std::vector<std::size_t> fresh_;  // at most as many as there are columns
  std::vector<Release> released_;   // in the last step
  double bound_ = 0.0;        // the best one on the programme so far
  bool bounding_ = false;     // whether any is wanted
  bool whole_way_ = false;    // whether all crossings on the way to the minimiser of the face are known
  bool ended_early_ = false, out_of_steps_ = false;
  std::vector<double> clipped_;  // columns
};

}  // namespace dconnet
