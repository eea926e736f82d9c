// The most useful new neurons of a design of rank three, by enumeration: the largest |r'max(Qv, 0)| over the sphere.
//
// The great circles q_j'v = 0 cut the sphere into cells, on each of which r'max(Qv, 0) = a'v is linear with a the sum of
// r_j q_j over the active rows. A maximiser of |a'v| lies inside a cell, at ±a / |a|, inside an arc between two cells,
// at the projection of a to the plane of its circle, or where circles cross. One circle after the other is walked
// along, from crossing to crossing, with the sum kept up to date; every cell lies beside some arc. A half of each circle
// is enough: on the other half all rows have changed sides.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace dconnet {

class Arrangement {
 public:
  // Q has rows of three numbers without padding, at least three of them independent, and must outlive the object.
  Arrangement(const double* Q, std::size_t rows);

  // For the circle of every row, the largest value on it and in the cells beside it that look promising, and the
  // direction, of length one; values below the floor or half of the largest of all need not be found. False if
  // `proceed` said no.
  bool search(const double* r, double floor, const std::function<bool()>& proceed, double* values, double* directions);

 private:
  struct Event {
    double key;      // ascending with the angle, from 0 to a half turn
    double d[2];     // the direction on the circle, of length one
    double sign;     // of the row's product behind it: +1 if it becomes active
    std::size_t row;
  };
  struct Circle {
    double normal[3], e1[3], e2[3];
    double total[3];          // of all rows that cross it
    double beside[2][3];      // of the rows along the normal, on its side and on the other
  };
  struct Best {
    double value;
    double v[3];
  };

  void lay_out(std::size_t i);
  void add_parallel(std::size_t j);
  void add_crossing(std::size_t j, double x, double y);
  void walk(Best& best, double promising);
  void see_arc(const double* sum, const Event& begin, const double* end, double turn, Best& best);
  void see_cells(const double* sum, const Event& begin, std::size_t end_row, double end_sign, double turn,
                 double promising, Best& best);
  double value(const double* v) const;

  const double* Q_;
  std::size_t rows_;
  const double* r_ = nullptr;
  Circle circle_{};
  std::vector<Event> events_;
};

}  // namespace dconnet
