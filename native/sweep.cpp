#include "sweep.hpp"

#include <algorithm>
#include <utility>

#include "all_rows.hpp"
#include "near_majoriser.hpp"

namespace dconnet {

namespace {

std::unique_ptr<Majoriser> majoriser_for(NeuronRows& rows) {
  if (!FarRows::pays_for(rows.rows(), rows.columns())) return std::make_unique<AllRows>(rows);
  rows.allocate_near_and_far();
  return std::make_unique<NearMajoriser>(rows);
}

}  // namespace

Sweep::Sweep(Design design, std::size_t n_hidden, std::size_t n_outputs, SharedTeam team)
    : n_hidden_(n_hidden),
      n_outputs_(n_outputs),
      team_(or_alone(std::move(team))),
      design_(std::move(design)),
      rows_(design_, n_hidden, n_outputs, *team_),
      neuron_(majoriser_for(rows_), rows_.stride()),
      v_(rows_.stride()),
      kinks_(rows_.stride()),
      squares_(rows_.leaves(), 1) {}

std::size_t Sweep::run(const double* y, const double* alpha, double gamma, const std::size_t* order, Split split,
                       const Limits& limits, const std::function<bool()>& proceed, double* V, Tally& tally,
                       const double* kinks) {
  const std::size_t columns = this->columns(), n_outputs = n_outputs_;
  rows_.set_targets(y);
  rows_.set_network(alpha, V, squares_.part(0));
  double squares = 0.0;
  squares_.merge(&squares);
  const double penalty = gamma * (dot(V, V, n_hidden() * columns) + dot(alpha, alpha, n_hidden() * n_outputs));
  for (std::size_t visited = 0; visited < n_hidden(); ++visited) {
    if (!proceed()) return visited;
    const std::size_t unit = order[visited];
    const double* weights = alpha + unit * n_outputs;
    double* v = V + unit * columns;
    std::copy_n(v, columns, v_.data());
    if (kinks) std::copy_n(kinks + unit * columns, columns, kinks_.data());
    const NeuronProblem problem{weights, split, dot(weights, weights, n_outputs), gamma, squares + penalty,
                                kinks ? kinks_.data() : nullptr};
    const bool whole = neuron_.improve(problem, limits, proceed, v_.data(), tally);
    std::copy_n(v_.data(), columns, v);
    if (!whole) return visited;
  }
  return n_hidden();
}

}  // namespace dconnet
