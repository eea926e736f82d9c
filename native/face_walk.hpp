// Walk downhill from face to face to the solution of the convex programme.
//
// Each step goes towards the minimiser on the present face, as far as the programme falls: past the kinks of some rows,
// and up to the kink of one that is held there from then on. At the minimiser, a row that no longer wants to be held is
// let go. Nothing ever rises, so that it cannot go round in circles but where many rows meet in one point.
#pragma once

#include <cstddef>
#include <vector>

#include "face.hpp"
#include "scratch.hpp"
#include "shared_products.hpp"

namespace dconnet {

class Sample;

class FaceWalk {
 public:
  // The sample, if there is one, finds better starts; the team, if there is one, shares products with many rows.
  FaceWalk(const Design& design, Face& face, Scratch& scratch, Sample* sample, Team* team = nullptr);

  // Is asked now and then whether to go on; null is always.
  void watch(const Proceed* proceed) { proceed_ = proceed; }
  const double* norms() const { return norms_.data(); }
  // The design has other rows than before, from this one on.
  void measure_rows(std::size_t first = 0);

  // Tries to solve from v with z = Q v. Both, and the multipliers, are replaced by the answer if one is found within
  // `max_steps`, and by where the walk ended otherwise. Adds the steps made to `steps`. With `resume`, the start is
  // where the last walk ended, and the programme differs from the last one in its linear term only. Ends early where
  // an answer is `enough`.
  bool solve(const Programme& programme, std::size_t max_steps, bool resume, double* v, double* z,
             double* multipliers, ActiveGram& gram, std::size_t& steps, const Enough& enough = {});
  // Whether the last walk ended early.
  bool ended_early() const { return ended_early_; }

 private:
  // Where along the direction the programme is least, and the row whose kink is there, if any.
  struct Stop {
    double at;
    bool kinked;
    std::size_t place;
  };

  struct Release {
    std::size_t row;
    Side side;
  };

  bool start(const Programme& programme, const double* v, const double* z, ActiveGram& gram);
  bool is_far(const double* v, const double* z);
  bool start_from_sample(const Programme& programme, double* v, double* z);
  bool step(const Programme& programme, double* v, double* z);
  double lower_bound(const Programme& programme);
  void leave_start(const Programme& programme, const double* v, double* z, double* multipliers) const;
  bool end_at_zero(double* v);
  Stop search(const Programme& programme, const double* v, double* z);
  double length_within_reach(const double* v) const;
  void look_around(double ahead, const double* v, double* z);
  void look_at_all(const double* v, double* z);
  void look_among_known(const double* v);
  void come_closer(double reach, const double* v);
  void drop_far();
  void keep_on_side(std::size_t place);
  void ground(std::size_t row);
  void collect_crossings(double limit);
  Stop lowest(const Programme& programme, double curvature, double limit);
  bool change_sides(const Stop& stop);
  bool release(const Programme& programme);
  bool settle_releases(const double* v);
  bool hold_wrong_releases(const double* v);

  const Design& design_;
  Face& face_;
  Sample* sample_;
  SharedProducts products_;
  const Proceed* proceed_ = nullptr;
  std::vector<Side> sides_;
  std::vector<double> norms_;        // of the rows
  std::vector<Row> near_;            // rows that may come to their kink while v is within reach_ of reference_
  std::size_t n_near_ = 0;
  std::vector<Row> known_;           // more such rows, for known_reach_ and known_reference_; none if there are none
  std::size_t n_known_ = 0;
  std::vector<double>&z_, &along_;   // of the rows that are near
  std::vector<double>& at_;          // step lengths at which rows that are near come to their kinks
  std::vector<Row> crossings_;       // which of those that are near do
  std::size_t n_crossings_ = 0;
  std::vector<double> direction_, reference_, known_reference_;  // columns
  double reach_ = 0.0, known_reach_ = 0.0, last_move_ = 0.0;
  double noise_ = 0.0;  // size of v that counts as zero
  bool moved_ = false;  // since z was computed
  std::vector<std::size_t> grounded_;  // rows at zero that are not held there
  bool degenerate_ = false;            // more of those than can be kept in mind
  std::vector<std::size_t> fresh_;     // rows that came to their kink since a minimiser was reached
  std::vector<Release> released_;    // rows let go in the last step
  double bound_ = 0.0;        // the best one on the programme so far
  bool bounding_ = false;     // whether any is wanted
  bool whole_way_ = false;    // whether all crossings on the way to the minimiser of the face are known
  bool ended_early_ = false;
  std::vector<double> clipped_;  // columns
};

}  // namespace dconnet
