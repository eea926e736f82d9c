// The largest |r'max(Qv, 0)| over the unit sphere by branch and bound over cones: proved bounds beyond rank three.
//
// A part is the cone of as many directions g_i as there are columns: v = sum of t_i g_i, t >= 0. For either sign s of the
// output, s r'max(Qv, 0) is bounded there by a function that is linear in t. Rows that no part of the cone has at its kink
// are linear. Of the others, one with s r_j > 0 is convex, and lies below the linear function with the same values at all
// g_i; one with s r_j < 0 is concave, and lies below mu s r_j q_j'v for any mu from 0 to 1, zero and one being the
// tangents. With l_i the value of the bound at g_i, every x with g_i'x >= l_i for all i has x'v above it, and |x| is the
// bound of the part: the shortest such x is found exactly, as one of few unknowns.
//
// Parts with the largest bound are cut in two first, across their longest edge. The error of a bound falls with the
// square of the size of the part: both the rows at their kinks and what each of them is off by become fewer.
#pragma once

#include <cstddef>
#include <functional>
#include <queue>
#include <vector>

namespace dconnet {

class ConeSearch {
 public:
  static constexpr std::size_t kMostColumns = 8;

  // Q has `rows` rows of `columns` numbers, at most kMostColumns.
  ConeSearch(const double* Q, const double* r, std::size_t rows, std::size_t columns);

  // Look at a direction, of any length.
  void try_point(const double* v);

  // Go on until no part has a bound above both `enough` and best * (1 + relative_gap), or `most_parts` have been looked
  // at, or `most_waiting` wait, or `proceed` says no; true in the first case.
  bool run(double relative_gap, double enough, std::size_t most_parts, std::size_t most_waiting,
           const std::function<bool()>& proceed);

  double best() const { return best_; }
  // Not exceeded by any direction.
  double bound() const;
  const std::vector<double>& point() const { return best_v_; }
  std::size_t parts() const { return n_parts_; }

 private:
  struct Part {
    double bound;
    std::size_t place;  // of its directions
    unsigned signs;     // bit 0: s = +1 is open, bit 1: s = -1
    bool operator<(const Part& other) const { return bound < other.bound; }
  };
  // The rows of a part: sums of r_j q_j'g_i over the active ones, and the products of those at kinks.
  struct Rows {
    void clear();
    // Adds a row with the products value(i) with the directions.
    template <typename Value>
    void add(double weight, const Value& value);

    std::vector<double> active;               // columns
    std::vector<double> weights;              // r_j of the rows at kinks
    std::vector<std::vector<double>> values;  // of each direction, q_j'g_i of the rows at kinks
    std::size_t count = 0;
  };

  void begin();
  void split(const Part& part);
  void read(const double* directions);
  void halve(std::size_t kept, std::size_t replaced, const double* middle, double length);
  void settle(unsigned signs, double parent_bound);
  double bound_of(double sign);
  void slopes_by_mean(double sign);
  void slopes_at(double sign, const double* t);
  void linear_bound(double sign, double* l) const;
  double shortest_above(const double* l, double* t) const;
  bool shortest_on(const double* l, unsigned used, double* t) const;
  std::size_t new_place();
  double cutoff() const;

  std::size_t rows_, columns_;
  std::vector<double> Q_, r_;          // Q by columns
  std::vector<double> pool_;           // directions of the parts, columns² each
  std::vector<std::size_t> free_;
  std::priority_queue<Part> open_;
  std::vector<double> best_v_;
  double best_ = 0.0, closed_ = 0.0, relative_gap_ = 0.0, enough_ = 0.0;
  std::size_t n_parts_ = 0;
  bool begun_ = false;

  // The part under way: its directions, their products, and its rows; those of its parent.
  std::vector<double> G_, parent_G_, gram_;
  Rows of_parent_, of_part_;
  std::vector<std::vector<double>> all_;  // q_j'g_i of all rows
  std::vector<double> slopes_;            // mu of the rows at kinks
};

}  // namespace dconnet
