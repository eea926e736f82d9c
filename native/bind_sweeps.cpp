// Programmes and sweeps for Python: `Solver` and `Sweep`.
#include "bindings.hpp"
#include "solver.hpp"
#include "sweep.hpp"

namespace {

// A solver of single programmes with the memory of its last one.
struct ProgrammeSolver {
  explicit ProgrammeSolver(dconnet::Design design)
      : solver(std::move(design)),
        gram(solver.design()),
        linear(solver.design().stride()),
        v(solver.design().stride()),
        z(solver.design().rows()) {}

  dconnet::Solver solver;
  dconnet::ActiveGram gram;
  std::vector<double> linear, v, z;
};

std::tuple<std::size_t, bool, const char*> solve(ProgrammeSolver& self, Vector linear, Vector slope, double curvature,
                                                 double gamma, double tolerance, std::size_t max_iterations,
                                                 double start_value, double share, OutVector v, OutVector multipliers) {
  dconnet::Solver& solver = self.solver;
  check_length(linear.size(), solver.design().columns(), "linear");
  check_length(v.size(), solver.design().columns(), "v");
  check_length(slope.size(), solver.design().rows(), "slope");
  check_length(multipliers.size(), solver.design().rows(), "multipliers");
  nb::gil_scoped_release unlocked;
  const std::size_t columns = solver.design().columns();
  std::copy(linear.data(), linear.data() + columns, self.linear.begin());
  std::copy(v.data(), v.data() + columns, self.v.begin());
  solver.design().apply(self.v.data(), self.z.data());
  const dconnet::Programme programme{solver.design(), self.linear.data(), slope.data(), curvature, gamma};
  const dconnet::Outcome outcome = solver.solve(programme, tolerance, max_iterations, false,
                                                {self.v.data(), self.z.data(), multipliers.data()}, self.gram,
                                                dconnet::Enough{start_value, share});
  std::copy(self.v.begin(), self.v.begin() + static_cast<std::ptrdiff_t>(columns), v.data());
  return {outcome.iterations, outcome.converged, dconnet::name_of(outcome.method)};
}

// Kink directions of the neurons (n_hidden, columns), or none.
using Kinks = std::optional<Matrix>;
using Counts = std::tuple<std::size_t, std::size_t, std::size_t, std::size_t, std::size_t>;

Counts sweep(dconnet::Sweep& self, Matrix y, Matrix alpha, double gamma, Order order, bool net_split,
             std::size_t max_dca_iterations, std::size_t max_solver_iterations, double tolerance,
             double seconds, OutMatrix V, const Kinks& kinks) {
  const std::size_t n_hidden = self.n_hidden();
  check_shape(y, self.rows(), self.n_outputs(), "y");
  if (kinks) check_shape(*kinks, n_hidden, self.columns(), "kinks");
  check_shape(alpha, n_hidden, self.n_outputs(), "alpha");
  check_length(order.size(), n_hidden, "order");
  check_shape(V, n_hidden, self.columns(), "V");
  for (std::size_t i = 0; i < n_hidden; ++i) {
    if (order.data()[i] >= n_hidden) throw nb::value_error("order names a neuron that does not exist");
  }
  const dconnet::Limits limits{max_dca_iterations, max_solver_iterations, tolerance};
  Watch watch(seconds);
  dconnet::Tally tally;
  std::size_t visited;
  {
    nb::gil_scoped_release unlocked;
    visited = self.run(y.data(), alpha.data(), gamma, order.data(),
                       net_split ? dconnet::Split::kNet : dconnet::Split::kPaper, limits,
                       [&watch] { return watch.proceed(); }, V.data(), tally, kinks ? kinks->data() : nullptr);
  }
  watch.raise();
  return {visited, tally.programmes, tally.iterations, tally.refused, tally.unsolved};
}

}  // namespace

void bind_sweeps(nb::module_& module) {
  nb::class_<Bound<ProgrammeSolver>>(module, "Solver", "Solves convex programmes over one design.")
      .def("__init__",
           [](Bound<ProgrammeSolver>* self, Matrix design, std::size_t columns) {
             new (self) Bound<ProgrammeSolver>(view_of(design, columns));
           },
           nb::keep_alive<1, 2>(), no_copy("design"), "columns"_a)
      .def("solve", alone(&solve), "linear"_a, "slope"_a, "curvature"_a, "gamma"_a,
           "tolerance"_a, "max_iterations"_a, "start_value"_a, "share"_a, no_copy("v"),
           no_copy("multipliers"),
           "Solve one programme from the start in v and multipliers, and write the answer there. Any answer will do whose "
           "duality gap is at most this share of its decrease from start_value. Returns the iterations, and whether the "
           "programme was solved to the tolerance, or as far as will do.");
  nb::class_<Bound<dconnet::Sweep>>(module, "Sweep", "Sweeps over the neurons of a network, on one design.")
      .def("__init__",
           [](Bound<dconnet::Sweep>* self, Matrix design, std::size_t columns, std::size_t n_hidden, std::size_t n_outputs,
              const GivenTeam& team) {
             if (n_outputs == 0) throw nb::value_error("there must be at least one output");
             make(self, team, view_of(design, columns), n_hidden, n_outputs);
           },
           nb::keep_alive<1, 2>(), no_copy("design"), "columns"_a, "n_hidden"_a, "n_outputs"_a,
           "team"_a = nb::none())
      .def("run", alone(&sweep), "y"_a, "alpha"_a, "gamma"_a, "order"_a, "net_split"_a,
           "max_dca_iterations"_a, "max_solver_iterations"_a, "tolerance"_a, "seconds"_a,
           no_copy("V"), "kinks"_a = nb::none(),
           "Improve the neurons in the given order, V (n_hidden, rank) in place, for y (n_rows, n_outputs) and alpha "
           "(n_hidden, n_outputs). A row at the kink of a neuron is active if its product with the neuron's row of kinks "
           "(n_hidden, rank) is positive, or always without kinks. Returns the neurons done, the programmes solved, the "
           "iterations for them, the steps refused and the programmes not solved to tolerance.");
}
