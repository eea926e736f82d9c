// The sums over the rows that evaluations of a whole network need, for rows of this process.
//
// The targets y have a column for each output, and so has alpha, whose row alpha_l belongs to neuron l.
// All rows are visited once, in tiles that stay in the cache: forth to the residual and back to the gradient. A team of
// threads shares the leaves.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "design.hpp"
#include "evaluations.hpp"
#include "layout.hpp"
#include "leaves.hpp"
#include "lanes.hpp"
#include "team.hpp"

namespace dconnet {

class Objective : public Evaluations {
 public:
  // y has the shape (rows, n_outputs).
  Objective(const Design& design, const double* y, double gamma, std::size_t n_hidden, std::size_t n_outputs,
            Team& team);

  // The sums of every leaf, before they are merged.
  LeafSums& leaf_sums(Ask ask, const double* input, std::size_t directions = 0);
  void copy_rows(const std::size_t* rows, std::size_t count, double* design, double* y) override;

 protected:
  void sum(Ask ask, const double* input, std::size_t directions, double* sums) override {
    leaf_sums(ask, input, directions).merge(sums);
  }

 private:
  // Room for some rows of all neurons.
  struct Tile {
    explicit Tile(const Layout& layout);
    Aligned<double> outputs, back;
    std::vector<double> residual;
  };

  template <typename Body>
  void in_tiles(const double* theta, std::size_t leaf, std::size_t thread, const Body& body);
  double residuals_of(Tile& tile, const double* theta, std::size_t first, std::size_t count);
  void sum_gradients(const double* theta);
  void sum_squares(const double* theta, double* residual);
  void sum_outputs(const double* theta);
  void sum_moments(const double* theta);
  void sum_matches(const double* theta, const double* directions, std::size_t count);
  void know_residual(const double* theta);

  const Design& design_;
  const double* y_;
  Leaves leaves_;
  Team& team_;
  std::vector<Tile> tiles_;  // one a thread
  LeafSums squares_, outputs_, gradients_;
  LeafSums others_;                          // of the other kinds, allocated on demand: they may be long
  std::vector<double> residual_, residual_theta_;  // of all rows, and the network that it belongs to; likewise
};

// The team and the design that an objective refers to, which must be constructed first.
struct Belongings {
  SharedTeam team;
  Design design;
};

struct OwnObjective : private Belongings, public Objective {
  OwnObjective(Design given, const double* y, double gamma, std::size_t n_hidden, std::size_t n_outputs, SharedTeam shared)
      : Belongings{or_alone(std::move(shared)), std::move(given)},
        Objective(Belongings::design, y, gamma, n_hidden, n_outputs, *team) {}
};

}  // namespace dconnet
