// Rows drawn at random that stand for all of them: F over these costs a fraction of F, and its minimum is near to that
// of F while the rows are many for the unknowns.
//
//   F_S = sum of the squared residuals of the rows in S + share gamma (|V|² + |alpha|²), which is about share F
#pragma once

#include <cstddef>
#include <vector>

#include "objective.hpp"
#include "random.hpp"

namespace dconnet {

class Subset {
 public:
  // One of every `spacing` rows or a few more, at random: rows come sorted, so that all regions keep their shares.
  Subset(Evaluations& whole, std::size_t spacing, Team& team, Random& random);
  Subset(const Subset&) = delete;
  Subset& operator=(const Subset&) = delete;

  double share() const { return share_; }  // of all rows
  Objective& objective() { return objective_; }

 private:
  // Rows of the design, (rows, stride), and their targets, (rows, n_outputs).
  struct Drawn {
    Drawn(Evaluations& whole, std::size_t rows, Random& random);
    std::vector<double> design, y;
  };

  std::size_t rows_;
  double share_;
  Drawn drawn_;
  Design design_;
  Objective objective_;
};

}  // namespace dconnet
