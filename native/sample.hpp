// A few of the rows, evenly spread, that represent all of them: where rows are many, their programme takes little time,
// and its solution is a good start.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "solver.hpp"

namespace dconnet {

class Sample {
 public:
  // One row in how many: a power of two, or zero if there are too few rows to stand for the others.
  static std::size_t spacing_for(std::size_t rows, std::size_t columns);
  // Null if there are too few.
  static std::unique_ptr<Sample> of(const Design& design, Team* team = nullptr);
  // Of all rows, these.
  Sample(Design sample, std::size_t spacing, std::size_t rows, Team* team);

  // Solves the programme with the sample in the place of all rows. It agrees with the whole one in its gradient at v,
  // where `pull` is the part of the gradient that the active rows make up. False if it was not solved.
  bool solve(const Programme& programme, const double* pull, const double* v);
  const double* v() const { return v_.data(); }
  void watch(const Proceed* proceed) { solver_.watch(proceed); }
  // Forgets what one programme leaves to the next.
  void forget() { gram_.clear(); }

 private:
  std::size_t spacing_;  // one row in `spacing_`
  double share_;         // of the rows
  Solver solver_;
  ActiveGram gram_;
  std::vector<double> v_, linear_;               // columns
  std::vector<double> slope_, z_, multipliers_;  // rows of the sample
};

}  // namespace dconnet
