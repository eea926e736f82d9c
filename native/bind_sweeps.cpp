// Programmes and sweeps for Python: `Solver`, `Sweep`, and a sweep over rows of other processes.
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

// A sweep over rows of this process, or of others, for which y is null.
Counts run_sweep(dconnet::Sweep& self, const double* y, Matrix alpha, double gamma, Order order, bool net_split,
                 const dconnet::Limits& limits, Watch& watch, OutMatrix V, const Kinks& kinks) {
  const std::size_t n_hidden = self.n_hidden();
  if (kinks) check_shape(*kinks, n_hidden, self.columns(), "kinks");
  check_shape(alpha, n_hidden, self.n_outputs(), "alpha");
  check_length(order.size(), n_hidden, "order");
  check_shape(V, n_hidden, self.columns(), "V");
  for (std::size_t i = 0; i < n_hidden; ++i) {
    if (order.data()[i] >= n_hidden) throw nb::value_error("order names a neuron that does not exist");
  }
  dconnet::Tally tally;
  std::size_t visited;
  {
    nb::gil_scoped_release unlocked;
    visited = self.run(y, alpha.data(), gamma, order.data(), net_split ? dconnet::Split::kNet : dconnet::Split::kPaper,
                       limits, [&watch] { return watch.proceed(); }, V.data(), tally, kinks ? kinks->data() : nullptr);
  }
  watch.raise();
  return {visited, tally.programmes, tally.iterations, tally.refused, tally.unsolved};
}

Counts sweep(dconnet::Sweep& self, Matrix y, Matrix alpha, double gamma, Order order, bool net_split,
             std::size_t max_dca_iterations, std::size_t max_solver_iterations, double tolerance,
             double seconds, OutMatrix V, const Kinks& kinks) {
  check_shape(y, self.rows(), self.n_outputs(), "y");
  Watch watch(seconds);
  return run_sweep(self, y.data(), alpha, gamma, order, net_split,
                   {max_dca_iterations, max_solver_iterations, tolerance}, watch, V, kinks);
}

// A run of whole leaves of rows, for a sweep of another process.
struct SweepLeaves {
  SweepLeaves(dconnet::Design given, const Matrix& y, std::size_t n_hidden, std::size_t first_leaf, std::size_t first_row,
              dconnet::SharedTeam shared)
      : team(dconnet::or_alone(std::move(shared))),
        design(std::move(given)),
        rows(design, n_hidden, y.shape(1), *team, first_row),
        first_leaf(first_leaf) {
    rows.set_targets(y.data());
    rows.allocate_near_and_far();
  }

  dconnet::SharedTeam team;
  dconnet::Design design;
  dconnet::NeuronRows rows;
  std::size_t first_leaf;
};

nb::ndarray<nb::numpy, double, nb::ndim<1>> answer(SweepLeaves& self, Vector round) {
  std::vector<double> numbers;
  bool understood = false;
  {
    nb::gil_scoped_release unlocked;
    understood = dconnet::answer(self.rows, self.first_leaf, round.data(), round.size(), numbers);
  }
  if (!understood) throw nb::value_error("this is no round of a sweep over rows like these");
  return handed_over(std::move(numbers));
}

// A sweep over rows of other processes, which a Python function asks. Its first exception ends the sweep.
class RemoteSweep {
 public:
  RemoteSweep(std::vector<std::size_t> parts, std::size_t columns, std::size_t n_hidden, std::size_t n_outputs,
              nb::callable ask, std::size_t most_numbers)
      : ask_(std::move(ask)),
        watch_(std::numeric_limits<double>::infinity()),
        sweep_(std::move(parts), columns, n_hidden, n_outputs, most_numbers,
               [this](const std::vector<double>& round, std::vector<double>& answers) { return this->ask(round, answers); }) {
    check();
  }

  Counts run(Matrix alpha, double gamma, Order order, bool net_split, std::size_t max_dca_iterations,
             std::size_t max_solver_iterations, double tolerance, double seconds, OutMatrix V, const Kinks& kinks) {
    watch_ = Watch(seconds);
    const Counts counts = run_sweep(sweep_, nullptr, alpha, gamma, order, net_split,
                                    {max_dca_iterations, max_solver_iterations, tolerance}, watch_, V, kinks);
    check();
    return counts;
  }

 private:
  bool ask(const std::vector<double>& round, std::vector<double>& answers) {
    return watch_.guarded([&] {
      const nb::object answer = ask_(handed_over(std::vector<double>(round)));
      const Vector numbers = nb::cast<Vector>(answer);
      answers.assign(numbers.data(), numbers.data() + numbers.size());
    });
  }

  void check() {
    watch_.raise();
    if (sweep_.failed()) throw nb::value_error("an answer has another length than its question asks for");
  }

  nb::callable ask_;
  Watch watch_;
  dconnet::Sweep sweep_;
};

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
  nb::class_<Bound<SweepLeaves>>(module, "SweepLeaves", "A run of whole leaves of rows, for a sweep of another process.")
      .def("__init__",
           [](Bound<SweepLeaves>* self, Matrix design, std::size_t columns, Matrix y, std::size_t n_hidden,
              std::size_t first_leaf, std::size_t first_row, const GivenTeam& team) {
             check_targets(y, design);
             make(self, team, view_of(design, columns), y, n_hidden, first_leaf, first_row);
           },
           nb::keep_alive<1, 2>(), no_copy("design"), "columns"_a, "y"_a, "n_hidden"_a,
           "first_leaf"_a, "first_row"_a, "team"_a = nb::none())
      .def("answer", alone(&answer), "round"_a,
           "Answer the questions of a RemoteSweep for these leaves.");
  nb::class_<Bound<RemoteSweep>>(module, "RemoteSweep", "Sweeps over the neurons of a network, on rows of other processes.")
      .def(nb::init<std::vector<std::size_t>, std::size_t, std::size_t, std::size_t, nb::callable, std::size_t>(),
           "rows"_a, "columns"_a, "n_hidden"_a, "n_outputs"_a, "ask"_a,
           "most_numbers"_a,
           "`rows` are the numbers of rows of the processes. If a programme needs all rows, they are fetched unless they have "
           "more than `most_numbers` numbers; then its neuron stays where it is.")
      .def("run", alone(&RemoteSweep::run), "alpha"_a, "gamma"_a, "order"_a, "net_split"_a,
           "max_dca_iterations"_a, "max_solver_iterations"_a, "tolerance"_a, "seconds"_a,
           no_copy("V"), "kinks"_a = nb::none(),
           "As Sweep.run; ask(round) returns the answers of all processes, one after the other.");
}
