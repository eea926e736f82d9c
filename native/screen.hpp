// The rows that may come to their kinks while v moves on: all others need no look.
//
// |z_j(v) - z_j(w)| <= |q_j| |v - w|. Where z is known at a reference, a row with |z_j| beyond reach |q_j| stays on its side
// as long as v is within reach of the reference.
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

  // Begins anew where z is known for all rows.
  void begin();
  // z = Q v for all rows.
  void apply(const double* v, double* z) const { products_.apply(design_, v, z); }
  // Whether many rows are within reach, where z is known for all.
  bool has_many_within(double reach, const double* z);

  // The rows in the list, in their order; z is kept up to date, and the change along a direction is asked for.
  std::size_t count() const { return n_near_; }
  std::size_t row(std::size_t place) const { return near_[place]; }
  double& z(std::size_t place) { return z_[place]; }
  double& along(std::size_t place) { return along_[place]; }
  NearPlaces places() const { return {near_.data(), n_near_, z_.data(), along_.data()}; }
  // Where the list has a row.
  std::size_t place_of(std::size_t row) const;

  // Makes the list shorter, if it reaches much further than a few times the last move from v.
  void come_closer(double last_move, const double* v);
  // How much of the direction from v, at most all of it, stays within reach.
  double length_within_reach(const double* v, const double* direction) const;
  // Lists the rows within a few times the last move from v, or those of the `whole` direction. Rows that are held, or
  // grounded, are at zero exactly; z is for all rows, and is made anew if it must be.
  void look_around(double last_move, bool whole, const double* v, const double* direction,
                   const std::vector<std::size_t>& held, const std::vector<std::size_t>& grounded, double* z);
  // The change of z along the direction.
  void look_along(const double* direction) {
    products_.apply_to_rows(design_, near_.data(), n_near_, direction, along_.data());
  }
  // v has moved by so much of the direction.
  void advance(double step);
  // v has moved to where only z of all rows would tell.
  void lose_track() { moved_ = true; }
  bool moved() const { return moved_; }

 private:
  void drop_far();

  const Design& design_;
  SharedProducts products_;
  std::vector<double> norms_;
  std::vector<Row> near_;            // rows that may come to their kink while v is within reach_ of reference_
  std::size_t n_near_ = 0;
  std::vector<Row> known_;           // more such rows, for known_reach_ and known_reference_; none if there are none
  std::size_t n_known_ = 0;
  std::vector<double>&z_, &along_;   // of the rows that are near
  std::vector<double> reference_, known_reference_;  // columns
  double reach_ = 0.0, known_reach_ = 0.0;
  bool moved_ = false;  // since z was computed for all rows
};

}  // namespace dconnet
