// The rows that a direction takes across their kinks, and where along it the programme is least.
//
// Along a direction d the programme is piecewise quadratic, and convex unless slopes are negative. On the way to the minimiser of a face its slope is
// kappa (tau - 1), kappa = dᵀ H d, until a row crosses; there it jumps by beta_j |q_j d|, and bends by 2 a (q_j d)² more,
// or less if the row becomes inactive.
#pragma once

#include <cstddef>
#include <vector>

#include "face.hpp"

namespace dconnet {

// Rows that are near, as places in a list, with z and its change along the direction.
struct NearPlaces {
  const Row* rows;
  std::size_t count;
  const double *z, *along;
};

// Where along the direction the programme has its first minimum, and the place of the row whose kink is there, if any.
struct Stop {
  double at;
  bool kinked;
  std::size_t place;
};

class Crossings {
 public:
  // `at` has a number for each row, which others may use between searches.
  Crossings(std::size_t rows, std::vector<double>& at) : at_(at), places_(rows + 1) {}

  void clear() { count_ = 0; }
  // Takes the places where z changes sign on the way to z + limit along.
  void collect(const NearPlaces& near, double limit);
  // One more, at the start of the way.
  void add_at_start(std::size_t place);

  std::size_t count() const { return count_; }
  std::size_t place(std::size_t i) const { return places_[i]; }
  // The step length at which the row at this place comes to its kink.
  double at(std::size_t place) const { return at_[place]; }

  // The stop within `limit` of a direction with this curvature on the face; changes the order of the places.
  Stop lowest(const Programme& programme, const Face& face, const NearPlaces& near, double curvature, double limit);

 private:
  std::vector<double>& at_;
  std::vector<Row> places_;
  std::size_t count_ = 0;
};

}  // namespace dconnet
