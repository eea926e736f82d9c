// An orthonormal basis of the space of v that is split by the rows held at their kinks.
//
// With the held rows as columns of a matrix A = Y R, the vectors Y span what the rows can push, and the vectors N all
// directions in which they stay at their kinks. Rows come and go at the cost of a few products with the basis.
#pragma once

#include <cstddef>
#include <vector>

#include "design.hpp"

namespace dconnet {

class KinkBasis {
 public:
  explicit KinkBasis(const Design& design);

  // Without any row: N is the identity.
  void clear();
  // Holds one more row. False if it depends on those that are held already, or there is no room for more.
  bool add(std::size_t row);
  void remove(std::size_t row);

  const std::vector<std::size_t>& rows() const { return rows_; }
  std::size_t free() const { return design_.columns() - rows_.size(); }
  // The vectors of N, free() of them, as the rows of a padded matrix.
  const double* directions() const { return vector(rows_.size()); }
  // Solves A x = b in the sense of least squares, one number a row: the forces of the rows that make up b.
  void forces(const double* b, double* x) const;

 private:
  const double* vector(std::size_t i) const { return basis_.data() + i * design_.stride(); }
  double* vector(std::size_t i) { return basis_.data() + i * design_.stride(); }
  double* column(std::size_t i) { return triangle_.data() + i * design_.stride(); }
  const double* column(std::size_t i) const { return triangle_.data() + i * design_.stride(); }
  void reflect(std::size_t held);

  const Design& design_;
  std::vector<std::size_t> rows_;                     // in the order of the columns of R
  std::vector<double> basis_, triangle_;              // the vectors of Y and then N; the columns of R
  std::vector<double> coordinates_, combination_;     // columns
};

}  // namespace dconnet
