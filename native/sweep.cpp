#include "sweep.hpp"

#include <algorithm>
#include <utility>

namespace dconnet {

Sweep::Sweep(Design design, std::size_t n_hidden, std::size_t n_outputs, SharedTeam team)
    : team_(or_alone(std::move(team))),
      design_(std::move(design)),
      rows_(design_, n_hidden, n_outputs, *team_),
      neuron_(rows_),
      v_(design_.stride()) {}

std::size_t Sweep::run(const double* y, const double* alpha, double gamma, const std::size_t* order, Split split,
                       const Limits& limits, const std::function<bool()>& proceed, double* V, Tally& tally) {
  const std::size_t columns = design_.columns(), n_outputs = rows_.n_outputs();
  const double squares = rows_.take_up(y, alpha, V);
  const double penalty = gamma * (dot(V, V, n_hidden() * columns) + dot(alpha, alpha, n_hidden() * n_outputs));
  for (std::size_t visited = 0; visited < n_hidden(); ++visited) {
    if (!proceed()) return visited;
    const std::size_t unit = order[visited];
    const double* weights = alpha + unit * n_outputs;
    double* v = V + unit * columns;
    std::copy_n(v, columns, v_.data());
    rows_.open(weights, v_.data(), split);
    const NeuronProblem problem{dot(weights, weights, n_outputs), gamma, squares + penalty};
    const bool whole = neuron_.improve(problem, limits, proceed, v_.data(), tally);
    std::copy_n(v_.data(), columns, v);
    if (!whole) return visited;
    rows_.close(weights);
  }
  return n_hidden();
}

}  // namespace dconnet
