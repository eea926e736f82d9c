// Primal-dual active-set method for the convex programme.
//
// Given which rows are active, inactive or at their kink, the programme is a linear system; its solution tells which
// rows are on the wrong side. From the answer to a similar programme this settles in a few rounds, each one pass over
// the design, and is then exact to rounding. It may cycle, and gives up where more rows are at their kink than there
// are unknowns: then another method must do.
#pragma once

#include <cstddef>
#include <vector>

#include "active_gram.hpp"
#include "programme.hpp"

namespace dconnet {

class ActiveSet {
 public:
  ActiveSet(const Design& design, ActiveGram::Room& room);

  // Tries to solve from (v, multipliers) with z = Q v; all three are replaced by the answer if the pattern settles
  // within `max_rounds`, and left alone otherwise. Adds the rounds made to `rounds`.
  bool solve(const Programme& programme, std::size_t max_rounds, double* v, double* z, double* multipliers,
             ActiveGram& gram, std::size_t& rounds);

 private:
  enum Side : unsigned char { kInactive, kKink, kActive };

  void first_sides(const Programme& programme, const double* z, const double* multipliers);
  bool solve_on_pattern(const Programme& programme, ActiveGram& gram);
  bool hold_kinks();
  bool correct_sides(const Programme& programme);

  const Design& design_;
  std::vector<Side> side_;
  std::vector<unsigned char> active_;
  std::vector<double> z_;                                        // rows
  std::vector<std::size_t> kinks_;                               // rows at their kink, at most as many as columns
  std::vector<double> kink_multipliers_, forces_;                // one for each of them
  std::vector<double> v_, right_side_, active_slopes_;           // columns
  std::vector<double> factor_, kink_rows_, schur_;               // columns by columns
  bool slopes_known_ = false;
  ActiveGram::Room& room_;
};

}  // namespace dconnet
