// The rows about their kinks, packed together: where rows are many, programmes are solved over these alone.
//
// About a centre w, rows are near if |z_j(w)| is small for |q_j|. As long as all others keep the side that they have at
// w, they enter the programme through sums alone: of their slopes, and the Gram matrix of those that are active. An answer
// over the near rows is then the one over all rows; whether the others did keep their sides is seen there.
#pragma once

#include <cstddef>
#include <vector>

#include "neuron_rows.hpp"
#include "solver.hpp"

namespace dconnet {

class NearRows {
 public:
  // Whether there are so many rows that it pays.
  static bool pays_for(const Design& design);

  explicit NearRows(NeuronRows& rows);

  void watch(const Proceed* proceed) { solver_.watch(proceed); }
  // Forgets the centre, because the problem is another one.
  void forget();
  bool centred() const { return centred_; }
  // Takes the point with these preactivations for the centre. False if too many rows are at their kinks there.
  bool centre(const double* z);
  // Takes the rows that have strayed at the last answer for near ones, too; if they are too many, or the point with these
  // preactivations is not the last answer, it becomes the centre. False if that cannot be; true in `next` if the next
  // programme continues from the last answer.
  bool follow(const double* z, std::size_t strayed, bool at_answer, bool& next);

  // Solves the programme with this linear term over the near rows, from v, and replaces v by the answer. With `next`,
  // v is the last answer, and the centre is the same.
  Outcome solve(const double* linear, double curvature, double gamma, double tolerance, std::size_t max_iterations,
                bool next, double* v);
  // How many of the other rows are not on the side that they have at the centre.
  std::size_t strayed(const double* z);

 private:
  enum class Place : unsigned char { kInactive, kActive, kNear };

  double reach(const double* z);
  std::size_t find_near(const double* z, double reach);
  void add_strayed(const double* z);
  bool has_strayed(std::size_t row, const double* z) const;
  void pack();
  void sum_others();

  NeuronRows& rows_;
  bool centred_ = false;
  std::vector<Place> places_;          // all rows
  std::vector<unsigned char> summed_;  // all rows: which are in the sums over the others
  std::size_t changes_ = 0;            // since these sums were made anew
  std::vector<Row> near_;
  std::size_t n_near_ = 0, n_known_ = 0;  // near rows, and how many of them the last programme had
  Solver solver_;                              // over the near rows
  ActiveGram gram_;                            // of the active rows, the others included
  std::vector<double> base_, last_base_, slopes_;  // of the others: their Gram matrix; the sum of their slopes
  std::vector<double> sums_;                   // both, one after the other
  std::vector<double> linear_;                 // columns
  std::vector<double> beta_, z_, multipliers_;  // near rows
  LeafSums counts_;
  std::vector<double> ratios_;                 // of some rows
  std::vector<Row> changed_;                   // all rows: lists and weights of rows, leaf by leaf
  std::vector<double> signs_, changed_slopes_;
};

}  // namespace dconnet
