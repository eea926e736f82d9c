// The list of rows that may come to their kinks while v moves: steps of a walk evaluate no others.
//
// |z_j(v) - z_j(w)| <= |q_j| |v - w|. If z is known at a reference point, a row with |z_j| > reach |q_j| stays on its side as
// long as v is within reach of the reference.
//
// Invariants between calls:
//  - near_ lists, in ascending order, all rows with |z_j| <= reach_ |q_j| at reference_, and maybe more. A reach of zero means
//    that there is no list.
//  - z_ holds z of the listed rows at v, place by place; along_ their change along the last direction of `update_along`.
//  - known_ is an older, longer list with a reach and a reference of its own; none if n_known_ is zero. near_ can be found in
//    it again as long as v is within known_reach_ of known_reference_ by more than the new reach.
//  - moved_ is false only if z of all rows, an array of the caller, is that at v.
#pragma once

#include <cstddef>
#include <vector>

#include "crossings.hpp"
#include "design.hpp"
#include "rows.hpp"

namespace dconnet {

class Screen {
 public:
  Screen(const Design& design, Scratch& scratch, Team* team);

  // The design has other rows than before, from this one on.
  void measure_rows(std::size_t first);
  // |q_j|, and a little more than rounding.
  const double* norms() const { return norms_.data(); }

  // Starts without a list, at a point where z is known for all rows.
  void begin();
  // z = Q v for all rows.
  void apply(const double* v, double* z) const { products_.apply(design_, v, z); }

  // The listed rows, by their places in the list.
  std::size_t count() const { return n_near_; }
  std::size_t row(std::size_t place) const { return near_[place]; }
  double& z(std::size_t place) { return z_[place]; }
  double& along(std::size_t place) { return along_[place]; }
  NearPlaces places() const { return {near_.data(), n_near_, z_.data(), along_.data()}; }
  // The place of a row, which must be in the list.
  std::size_t place_of(std::size_t row) const;

  // Makes the list shorter if its reach is much longer than a few times the last move from v.
  void shorten(double last_move, const double* v);
  // The share of the direction from v, at most one, that stays within reach.
  double length_within_reach(const double* v, const double* direction) const;
  // Lists the rows within a few times the last move from v, or those within the `whole` direction. Rows that are held or
  // grounded have z = 0 exactly; z is for all rows, and is computed again if v has moved.
  void list_rows(double last_move, bool whole, const double* v, const double* direction,
                   const std::vector<std::size_t>& held, const std::vector<std::size_t>& grounded, double* z);
  // Computes the change of z of the listed rows along the direction.
  void update_along(const double* direction) {
    products_.apply_to_rows(design_, near_.data(), n_near_, direction, along_.data());
  }
  // v has moved by this share of the direction.
  void advance(double step);
  // v has moved to a point where the list says nothing.
  void invalidate() { moved_ = true; }
  bool moved() const { return moved_; }

 private:
  void drop_far();

  const Design& design_;
  SharedProducts products_;
  std::vector<double> norms_;
  std::vector<Row> near_, known_;  // the first n_near_ and n_known_ entries are the lists
  std::size_t n_near_ = 0, n_known_ = 0;
  std::vector<double>&z_, &along_;
  std::vector<double> reference_, known_reference_;  // columns
  double reach_ = 0.0, known_reach_ = 0.0;
  bool moved_ = false;
};

}  // namespace dconnet
