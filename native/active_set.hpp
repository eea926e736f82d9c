// Primal-dual active-set method for the convex programme.
//
// Given which rows are active, inactive or at their kink, the programme is a linear system; its solution tells which
// rows are on the wrong side. From the answer to a similar programme this settles in a few rounds, each one pass over
// the design, and is then exact to rounding. It may cycle, and gives up where more rows are at their kink than there
// are unknowns: then another method must do.
#pragma once

#include <cstddef>
#include <vector>

#include "face.hpp"
#include "scratch.hpp"

namespace dconnet {

class ActiveSet {
 public:
  ActiveSet(const Design& design, Face& face, Scratch& scratch);

  // Tries to solve from (v, multipliers) with z = Q v; all three are replaced by the answer if the pattern settles
  // within `max_rounds`, and left alone otherwise. Adds the rounds made to `rounds`.
  bool solve(const Programme& programme, std::size_t max_rounds, double* v, double* z, double* multipliers,
             ActiveGram& gram, std::size_t& rounds);

 private:
  void first_sides(const Programme& programme, const double* z, const double* multipliers);
  bool correct_sides(const Programme& programme);

  const Design& design_;
  Face& face_;
  std::vector<Side> sides_;
  std::vector<double>& z_;  // rows
};

}  // namespace dconnet
