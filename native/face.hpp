// A face of the programme: every row keeps its side, or is held at its kink. There the programme is a linear system.
//
// From one face to the next few rows change sides, and the system is kept up to date with those alone.
#pragma once

#include <cstddef>
#include <vector>

#include "active_gram.hpp"
#include "free_factor.hpp"
#include "kink_basis.hpp"
#include "programme.hpp"

namespace dconnet {

enum class Side : unsigned char { kInactive, kKink, kActive };

class Face {
 public:
  Face(const Design& design, ActiveGram::Changes& changes);

  // Enters the face of the given sides, one a row; `buffer` has a number for each row, and is free again afterwards.
  // False if more rows are at their kink than there are unknowns.
  bool enter(const Programme& programme, const Side* sides, ActiveGram& gram, double* buffer);
  // Stays on the face, for a programme that differs from the last one in its linear term only.
  void resume(const Programme& programme) { programme_ = &programme; }
  // Takes in a row that the design did not have when the face was entered; the matrix of the others may have changed.
  void admit(std::size_t row, bool active);
  // Moves a row to another side.
  void move(std::size_t row, Side side);
  // Finds the minimiser v() on the face, and the forces() that hold its rows at their kinks. False if those rows depend
  // on each other, or are too many.
  bool minimise();

  Side side(std::size_t row) const { return side_[row]; }
  const std::vector<std::size_t>& kinks() const { return basis_.rows(); }
  const double* v() const { return v_.data(); }
  double force(std::size_t kink) const { return forces_[kink]; }
  // The curvature of the programme along d on this face.
  double curvature_along(const double* d);
  // P at a point of this face, with the minimiser known.
  double value(const double* v);
  // The multipliers at the minimiser, where z = Q v().
  void multipliers(const double* z, double* multipliers) const;

 private:
  void update_system();
  bool is_worth_updating(std::size_t changes) const;
  void hold(std::size_t row);
  void let_go(std::size_t row);
  bool solve_from_scratch();
  bool solve_with_updates();
  void descend();
  double free_gradient();
  void apply_hessian(const double* v);

  const Design& design_;
  const Programme* programme_ = nullptr;
  ActiveGram* gram_ = nullptr;
  std::vector<Side> side_;
  std::vector<unsigned char> active_;
  KinkBasis basis_;
  FreeFactor factor_;                                         // for what is not pending
  bool independent_ = true;                                   // the rows at their kinks
  std::size_t pending_ = 0;                                   // rows that came to or left the active ones, in changes_
  std::vector<double> forces_;                                // one for each kink
  std::vector<double> v_, gradient_, active_slopes_, pull_, coordinates_, product_;  // columns
  ActiveGram::Changes& changes_;
};

}  // namespace dconnet
