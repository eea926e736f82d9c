// The Cholesky factor of the Hessian in the free directions of a face, kept up to date.
//
// With the free directions as rows of a matrix N, it is the triangle U with N H Nᵀ = Uᵀ U. A row that changes sides, a
// direction that is lost and one that is gained each cost a few products with U, and not a new factorisation.
#pragma once

#include <cstddef>
#include <vector>

#include "kink_basis.hpp"

namespace dconnet {

class FreeFactor {
 public:
  explicit FreeFactor(std::size_t columns, std::size_t stride);

  bool known() const { return known_; }
  void forget() { known_ = false; }

  // From scratch, with H = 2 gamma I + 2 curvature G, of which G has the tiles on and above the diagonal. False if that
  // is not positive definite.
  bool factorise(const KinkBasis& basis, const double* G, double curvature, double gamma);

  // H becomes H + weight q qᵀ, where x = N q, which is lost. Forgets itself where too many digits would be lost.
  void change(double weight, double* x);
  // The directions are turned as the basis has just turned them, and the last of them is lost.
  void lose_direction(const std::vector<Rotation>& turns);
  // One more direction d at the end: `products` = N H d, which is lost, and `curvature` = dᵀ H d.
  void gain_direction(double* products, double curvature);

  // Solves N H Nᵀ x = b in place.
  void solve(double* x) const;

 private:
  double* row(std::size_t i) { return triangle_.data() + i * stride_; }
  const double* row(std::size_t i) const { return triangle_.data() + i * stride_; }
  void raise(double* x);
  void lower(double* x);

  std::size_t stride_;
  std::size_t size_ = 0;
  bool known_ = false;
  std::vector<double> triangle_;             // row by row; what is below the diagonal has no meaning
  std::vector<double> hessian_, product_;    // columns by columns
  std::vector<double> work_;                 // columns
};

}  // namespace dconnet
