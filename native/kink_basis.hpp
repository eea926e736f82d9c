// An orthonormal basis of the space of v that is split by the rows held at their kinks.
//
// With the held rows as columns of a matrix A = Y R, the vectors Y span what the rows can push, and the vectors N all
// directions in which they stay at their kinks. Rows come and go at the cost of a few products with the basis: one that
// comes turns N until only its last vector is not free any more, and one that goes sets a vector free at the end of N.
#pragma once

#include <cstddef>
#include <vector>

#include "design.hpp"

namespace dconnet {

// Neighbouring vectors i and i + 1 become c v_i - s v_{i+1} and c v_{i+1} + s v_i.
struct Rotation {
  double cosine, sine;
};

class KinkBasis {
 public:
  explicit KinkBasis(const Design& design);

  // Without any row: N is the identity.
  void clear();
  // Holds one more row. False if it depends on those that are held already, or there is no room for more.
  bool add(std::size_t row);
  // Holds a row no longer. False if it is not held.
  bool remove(std::size_t row);

  const std::vector<std::size_t>& rows() const { return rows_; }
  std::size_t free() const { return design_.columns() - rows_.size(); }
  // The vectors of N, free() of them, as the rows of a padded matrix.
  const double* directions() const { return basis_.data(); }
  // How the last row that came has turned them, from the first pair on.
  const std::vector<Rotation>& turns() const { return turns_; }
  // Solves A x = b in the sense of least squares, one number a row: the forces of the rows that make up b.
  void forces(const double* b, double* x) const;

 private:
  double* vector(std::size_t i) { return basis_.data() + i * design_.stride(); }
  double* pushed(std::size_t i) { return vector(design_.columns() - 1 - i); }  // of Y
  double* column(std::size_t i) { return triangle_.data() + i * design_.stride(); }
  const double* column(std::size_t i) const { return triangle_.data() + i * design_.stride(); }
  void turn();

  const Design& design_;
  std::vector<std::size_t> rows_;                  // in the order of the columns of R
  std::vector<double> basis_, triangle_;           // the vectors of N, and then of Y from the last to the first; R
  std::vector<double> coordinates_, combination_;  // columns
  std::vector<Rotation> turns_;
};

}  // namespace dconnet
