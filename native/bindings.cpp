// The border to Python: typed contiguous arrays in, results written in place, no lock held while computing.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "arrangement.hpp"
#include "coded_rows.hpp"
#include "cone_search.hpp"
#include "dispatch.hpp"
#include "explorer.hpp"
#include "far_rows.hpp"
#include "objective.hpp"
#include "short_fit.hpp"
#include "sign_search.hpp"
#include "solver.hpp"
#include "sweep.hpp"

namespace nb = nanobind;

using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Vector = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Order = nb::ndarray<const std::size_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using OutMatrix = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using OutVector = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

namespace {

// An array that is written to, or looked at after the call: it must be the caller's own and not a converted copy.
auto no_copy(const char* name) { return nb::arg(name).noconvert(); }

void check_length(std::size_t length, std::size_t expected, const char* name) {
  if (length != expected) throw nb::value_error((std::string(name) + " has the wrong length").c_str());
}

template <typename Array>
void check_shape(const Array& matrix, std::size_t rows, std::size_t columns, const char* name) {
  if (matrix.shape(0) == rows && matrix.shape(1) == columns) return;
  throw nb::value_error((std::string(name) + " must have the shape (" + std::to_string(rows) + ", " +
                         std::to_string(columns) + "), got (" + std::to_string(matrix.shape(0)) + ", " +
                         std::to_string(matrix.shape(1)) + ")").c_str());
}

// Targets are of shape (rows, n_outputs).
void check_targets(const Matrix& y, const Matrix& design) {
  if (y.shape(1) == 0) throw nb::value_error("y must have at least one column");
  check_shape(y, design.shape(0), y.shape(1), "y");
}

// The rows of the design, which Python has padded with zeros and keeps alive.
dconnet::Design view_of(const Matrix& padded, std::size_t columns) {
  constexpr std::size_t most = std::numeric_limits<dconnet::Row>::max();
  if (padded.shape(0) > most) {
    throw nb::value_error(("the design has " + std::to_string(padded.shape(0)) + " rows, but the kernel numbers at most " +
                           std::to_string(most)).c_str());
  }
  check_length(padded.shape(1), dconnet::round_up_to_lanes(columns), "a row of the design");
  return dconnet::Design::view(padded.data(), padded.shape(0), columns);
}

// An object of the kernel, which holds its room for work and so serves one thread at a time, and with it its team.
template <typename Kernel>
struct Bound : Kernel {
  using Kernel::Kernel;

  std::atomic<bool> in_use{false};
  std::atomic<bool>* team_in_use = nullptr;  // none if it has no team that others may have, too
};

using GivenTeam = std::shared_ptr<Bound<dconnet::Team>>;

// Takes an object, or nothing, for the time of a call.
class Use {
 public:
  explicit Use(std::atomic<bool>* in_use) : in_use_(in_use) {
    if (in_use_ != nullptr && in_use_->exchange(true)) {
      throw std::runtime_error("This object of the kernel, or its team, is in use by another thread. Make one for each.");
    }
  }
  ~Use() {
    if (in_use_ != nullptr) *in_use_ = false;
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  std::atomic<bool>* in_use_;
};

// Constructs an object in the memory that Python has allocated, with the team that it may share. The constructor may run the
// team, so that no other thread may use it meanwhile.
template <typename Kernel, typename... Arguments>
void make(Bound<Kernel>* self, const GivenTeam& team, Arguments&&... arguments) {
  const Use use(team ? &team->in_use : nullptr);
  new (self) Bound<Kernel>(std::forward<Arguments>(arguments)..., team);
  if (team) self->team_in_use = &team->in_use;
}

// A function of an object, or a method of it, as one that refuses an object in use.
template <typename Kernel, typename Result, typename... Arguments>
auto alone(Result (*function)(Kernel&, Arguments...)) {
  return [function](Bound<Kernel>& self, Arguments... arguments) -> Result {
    const Use own(&self.in_use), team(self.team_in_use);
    return function(self, std::forward<Arguments>(arguments)...);
  };
}

template <typename Kernel, typename Result, typename... Arguments>
auto alone(Result (Kernel::*method)(Arguments...)) {
  return [method](Bound<Kernel>& self, Arguments... arguments) -> Result {
    const Use own(&self.in_use), team(self.team_in_use);
    return (self.*method)(std::forward<Arguments>(arguments)...);
  };
}

template <typename Kernel, typename Result>
auto alone(Result (Kernel::*property)() const) {
  return [property](Bound<Kernel>& self) -> std::decay_t<Result> {
    const Use own(&self.in_use), team(self.team_in_use);
    return (self.*property)();
  };
}

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

// A request to stop. Ctrl-C reaches the main thread of Python alone: with this, that thread tells the others.
struct Stop {
  std::atomic<bool> is_set{false};
};

// What the kernel watches in this thread besides signals; Python keeps it alive.
thread_local const Stop* watched_stop = nullptr;

// Tells whether to proceed: there is time left, no signal such as Ctrl-C has arrived, and no other thread asks to stop. Signals
// are checked every 50 ms only, because that takes Python's lock.
//
// An exception, of a signal handler or of a call into Python (`guarded`), is taken out of the interpreter and kept here until
// `raise`, once the kernel has returned: from the first exception on, the kernel makes no call into Python.
class Watch {
 public:
  explicit Watch(double seconds) : began_(Clock::now()), last_check_(began_), seconds_(seconds), stop_(watched_stop) {}

  bool proceed() {
    const Clock::time_point now = Clock::now();
    const bool is_stopped = stop_ != nullptr && stop_->is_set;
    if (!failed() && (is_stopped || now - last_check_ > std::chrono::milliseconds(50))) {
      last_check_ = now;
      guarded([&] {
        if (PyErr_CheckSignals() == 0 && is_stopped) PyErr_SetNone(PyExc_KeyboardInterrupt);
        if (PyErr_Occurred() != nullptr) throw nb::python_error();
      });
    }
    return !failed() && std::chrono::duration<double>(now - began_).count() < seconds_;
  }

  // Calls body() with Python's lock and keeps the exception that it throws; false if there is one already, or now.
  template <typename Body>
  bool guarded(const Body& body) {
    if (failed()) return false;
    nb::gil_scoped_acquire locked;
    try {
      body();
    } catch (...) {
      error_ = std::current_exception();
    }
    return !failed();
  }

  bool failed() const { return error_ != nullptr; }
  // Throws the exception that was kept, if any; with Python's lock.
  void raise() {
    if (failed()) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point began_, last_check_;
  double seconds_;
  const Stop* stop_;
  std::exception_ptr error_;
};

// Kink directions of the neurons (n_hidden, columns), or none.
using Kinks = std::optional<Matrix>;
using Counts = std::tuple<std::size_t, std::size_t, std::size_t, std::size_t, std::size_t>;

// A sweep over rows that are here, or elsewhere, where y is null.
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

// An array that Python owns.
nb::ndarray<nb::numpy, double, nb::ndim<1>> handed_over(std::vector<double>&& numbers) {
  auto* kept = new std::vector<double>(std::move(numbers));
  nb::capsule owner(kept, [](void* numbers) noexcept { delete static_cast<std::vector<double>*>(numbers); });
  return nb::ndarray<nb::numpy, double, nb::ndim<1>>(kept->data(), {kept->size()}, owner);
}

// A run of whole leaves of the rows of a sweep that is driven from elsewhere.
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

// The objective with the design that it looks at.
struct NetworkObjective {
  NetworkObjective(dconnet::Design given, const Matrix& y, double gamma, std::size_t n_hidden,
                   dconnet::SharedTeam shared)
      : team(dconnet::or_alone(std::move(shared))),
        design(std::move(given)),
        objective(design, y.data(), gamma, n_hidden, y.shape(1), *team) {}

  dconnet::SharedTeam team;
  dconnet::Design design;
  dconnet::Objective objective;
};

double gradient(NetworkObjective& self, Matrix V, Matrix alpha, OutMatrix gradient_V, OutMatrix gradient_alpha) {
  const dconnet::Layout& layout = self.objective.layout();
  check_shape(V, layout.n_hidden, layout.columns, "V");
  check_shape(gradient_V, layout.n_hidden, layout.columns, "gradient_V");
  check_shape(alpha, layout.n_hidden, layout.n_outputs, "alpha");
  check_shape(gradient_alpha, layout.n_hidden, layout.n_outputs, "gradient_alpha");
  nb::gil_scoped_release unlocked;
  dconnet::Aligned<double> theta(layout.size()), slopes(layout.size());
  layout.pack(V.data(), alpha.data(), theta.data());
  const double value = self.objective.gradient(theta.data(), slopes.data());
  layout.unpack(slopes.data(), gradient_V.data(), gradient_alpha.data());
  return value;
}

void solve_output_weights(NetworkObjective& self, Matrix V, OutMatrix alpha) {
  const dconnet::Layout& layout = self.objective.layout();
  check_shape(V, layout.n_hidden, layout.columns, "V");
  check_shape(alpha, layout.n_hidden, layout.n_outputs, "alpha");
  nb::gil_scoped_release unlocked;
  std::vector<double> theta(layout.size()), hidden(V.size());
  layout.pack(V.data(), alpha.data(), theta.data());
  self.objective.solve_output_weights(theta.data());
  layout.unpack(theta.data(), hidden.data(), alpha.data());
}

// The kinds of sums by name.
constexpr std::pair<const char*, dconnet::Ask> kAsks[] = {{"gradient", dconnet::Ask::kGradient},
                                                          {"value", dconnet::Ask::kValue},
                                                          {"outputs", dconnet::Ask::kOutputs},
                                                          {"moments", dconnet::Ask::kMoments},
                                                          {"matches", dconnet::Ask::kMatches}};

dconnet::Ask ask_of(const std::string& kind) {
  for (const auto& [name, ask] : kAsks) {
    if (kind == name) return ask;
  }
  throw nb::value_error(("there are no sums of the kind " + kind).c_str());
}

const char* name_of(dconnet::Ask ask) {
  for (const auto& [name, each] : kAsks) {
    if (each == ask) return name;
  }
  return "";
}

using Blocks = std::tuple<std::vector<std::size_t>, std::vector<std::size_t>, nb::ndarray<nb::numpy, double, nb::ndim<2>>>;

// The blocks of leaves, and their sums as an array of its own; with Python's lock.
Blocks blocks_of(const dconnet::LeafTree& tree, std::size_t size) {
  std::vector<std::size_t> first, level;
  for (const dconnet::LeafTree::Block& block : tree.blocks()) {
    first.push_back(block.first);
    level.push_back(block.level);
  }
  auto* values = new std::vector<double>(tree.values());
  const nb::capsule owner(values, [](void* pointer) noexcept { delete static_cast<std::vector<double>*>(pointer); });
  return {first, level, nb::ndarray<nb::numpy, double, nb::ndim<2>>(values->data(), {first.size(), size}, owner)};
}

Blocks block_sums(NetworkObjective& self, const std::string& kind, Vector input, std::size_t first_leaf) {
  const dconnet::Ask ask = ask_of(kind);
  const dconnet::Layout& layout = self.objective.layout();
  const bool has_directions = ask == dconnet::Ask::kMatches;
  const std::size_t directions = has_directions && input.size() > layout.size() ? (input.size() - layout.size()) / layout.stride : 0;
  check_length(input.size(), layout.size() + directions * layout.stride, "input");
  const dconnet::LeafTree* tree;
  {
    nb::gil_scoped_release unlocked;
    tree = &self.objective.leaf_sums(ask, input.data(), directions).blocks(first_leaf);
  }
  return blocks_of(*tree, dconnet::answer_size(ask, layout) * (has_directions ? directions : 1));
}

// Numbers as an array of Python's own.
template <typename Number>
nb::object copy_of(const Number* values, std::size_t count) {
  return nb::cast(nb::ndarray<nb::numpy, const Number, nb::ndim<1>>(values, {count}, nb::handle()), nb::rv_policy::copy);
}

// Rows of other processes, which a Python object asks. After the first exception there, or Ctrl-C, every sum is NaN until the
// kernel has returned.
class RemoteEvaluations : public dconnet::Evaluations {
 public:
  RemoteEvaluations(nb::object remote, const dconnet::Layout& layout, double gamma, std::size_t rows, double target_square,
                    std::size_t most_numbers)
      : Evaluations(layout, gamma, rows, target_square), remote_(std::move(remote)), most_numbers_(most_numbers) {}

  // Must be called before every use of the object.
  void set_watch(Watch& watch) { watch_ = &watch; }

  std::size_t most_copied() const override { return std::max<std::size_t>(1, most_numbers_ / layout().stride); }
  void copy_rows(const std::size_t* rows, std::size_t count, double* design, double* y) override {
    const std::size_t stride = layout().stride, n_outputs = layout().n_outputs;
    std::fill_n(design, count * stride, 0.0);
    std::fill_n(y, count * n_outputs, 0.0);
    watch_->guarded([&] {
      const auto [found_design, found_y] = nb::cast<std::pair<Matrix, Matrix>>(remote_.attr("rows")(copy_of(rows, count)));
      check_shape(found_design, count, stride, "rows of the design");
      check_shape(found_y, count, n_outputs, "their targets");
      std::copy_n(found_design.data(), count * stride, design);
      std::copy_n(found_y.data(), count * n_outputs, y);
    });
  }

 protected:
  void sum(dconnet::Ask ask, const double* input, std::size_t directions, double* sums) override {
    const bool has_directions = ask == dconnet::Ask::kMatches;
    const std::size_t size = dconnet::answer_size(ask, layout()) * (has_directions ? directions : 1);
    std::fill_n(sums, size, std::numeric_limits<double>::quiet_NaN());
    watch_->guarded([&] {
      const nb::object question = copy_of(input, layout().size() + directions * layout().stride);
      const auto found = nb::cast<Vector>(remote_.attr("sums")(name_of(ask), question));
      check_length(found.size(), size, "the sums");
      std::copy_n(found.data(), size, sums);
    });
  }

 private:
  nb::object remote_;
  std::size_t most_numbers_;
  Watch* watch_ = nullptr;
};

dconnet::Hop hop_of(const std::string& name) {
  return name == "perturb" ? dconnet::Hop::kPerturb : name == "restart" ? dconnet::Hop::kRestart : dconnet::Hop::kNone;
}

void make_explorer(Bound<dconnet::Explorer>* self, Matrix design, std::size_t columns, Matrix y, double gamma,
                   std::size_t n_hidden, std::size_t starts, std::size_t samples, bool burst, const std::string& hop,
                   double stalled, std::size_t patience, bool revive, std::uint64_t seed, const GivenTeam& team) {
  check_targets(y, design);
  const dconnet::Plan plan{starts, samples, burst, hop_of(hop), stalled, patience, revive};
  make(self, team, view_of(design, columns), y.data(), gamma, n_hidden, y.shape(1), plan, seed);
}

// An explorer whose rows are elsewhere.
struct RemoteExplorer : dconnet::Explorer {
  RemoteExplorer(std::unique_ptr<RemoteEvaluations> evaluations, dconnet::Plan plan, std::uint64_t seed,
                 dconnet::SharedTeam team)
      : Explorer(std::move(evaluations), plan, seed, std::move(team)) {}

  RemoteEvaluations& remote() { return static_cast<RemoteEvaluations&>(evaluations()); }
};

void make_remote_explorer(Bound<RemoteExplorer>* self, nb::object remote, std::size_t rows, std::size_t columns,
                          std::size_t n_outputs, double target_square, double gamma, std::size_t n_hidden,
                          std::size_t starts, std::size_t samples, bool burst, const std::string& hop, double stalled,
                          std::size_t patience, bool revive, std::uint64_t seed, std::size_t most_numbers,
                          const GivenTeam& team) {
  if (n_outputs == 0) throw nb::value_error("there must be at least one output");
  const dconnet::Plan plan{starts, samples, burst, hop_of(hop), stalled, patience, revive};
  make(self, team,
       std::make_unique<RemoteEvaluations>(std::move(remote), dconnet::Layout(columns, n_hidden, n_outputs), gamma, rows,
                                           target_square, most_numbers),
       plan, seed);
}

template <typename Kernel>
bool settled(Kernel& self) {
  return self.settled();
}

template <typename Kernel>
std::vector<std::uint64_t> state_of(Kernel& self) {
  return self.state();
}

template <typename Kernel>
void restore(Kernel& self, const std::vector<std::uint64_t>& state) {
  if (!self.restore(state)) throw nb::value_error("this is not the state of an explorer");
}

using Explored = std::tuple<std::size_t, std::size_t, std::size_t, std::size_t, std::size_t>;

Explored explore_until(dconnet::Explorer& self, std::size_t evaluations, Watch& watch, OutMatrix& V, OutMatrix& alpha) {
  const dconnet::Layout& layout = self.layout();
  check_shape(V, layout.n_hidden, layout.columns, "V");
  check_shape(alpha, layout.n_hidden, layout.n_outputs, "alpha");
  dconnet::Exploration done;
  {
    nb::gil_scoped_release unlocked;
    done = self.explore(evaluations, [&watch] { return watch.proceed(); }, V.data(), alpha.data());
  }
  watch.raise();
  return {done.evaluations, done.hops, done.accepted, done.revived, done.barren};
}

Explored explore(dconnet::Explorer& self, std::size_t evaluations, double seconds, OutMatrix V, OutMatrix alpha) {
  Watch watch(seconds);
  return explore_until(self, evaluations, watch, V, alpha);
}

Explored explore_remotely(RemoteExplorer& self, std::size_t evaluations, double seconds, OutMatrix V, OutMatrix alpha) {
  Watch watch(seconds);
  self.remote().set_watch(watch);
  return explore_until(self, evaluations, watch, V, alpha);
}

using Places = nb::ndarray<const std::uint32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Shares = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Networks = nb::ndarray<const double, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using OutNetworks = nb::ndarray<double, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

// The features of coded rows: linear ones first, then ramps, then categories.
std::vector<dconnet::CodedFeature> features_of(const Order& kinds, const Order& columns, const Order& places) {
  check_length(columns.size(), kinds.size(), "columns");
  check_length(places.size(), kinds.size(), "places");
  std::vector<dconnet::CodedFeature> features(kinds.size());
  for (std::size_t f = 0; f < features.size(); ++f) {
    const std::size_t kind = kinds.data()[f];
    if (kind > 2 || (f > 0 && kind < kinds.data()[f - 1])) throw nb::value_error("kinds must be 0, 1 and 2, ascending");
    features[f] = {static_cast<dconnet::CodedFeature::Kind>(kind), columns.data()[f], places.data()[f]};
    const bool fits = kind == 2 ? features[f].columns <= features[f].places : features[f].columns == features[f].places;
    if (!fits || features[f].places == 0 || (kind == 0 && features[f].columns != 1)) {
      throw nb::value_error("a feature has the wrong number of columns or places");
    }
  }
  return features;
}

// Every row must stay within the places of its features, which lie one after the other.
void check_places(const dconnet::CodedRows& rows) {
  for (std::size_t j = 0; j < rows.rows; ++j) {
    std::size_t first = 0;
    for (std::size_t f = 0; f < rows.features.size(); ++f) {
      const std::size_t place = rows.places[j * rows.features.size() + f];
      if (place < first || place >= first + rows.features[f].places) throw nb::value_error("a place is out of range");
      first += rows.features[f].places;
    }
  }
}

dconnet::CodedRows rows_of(const Order& kinds, const Order& columns, const Order& n_places, const Places& places,
                           const Shares& shares) {
  dconnet::CodedRows rows{places.shape(0), features_of(kinds, columns, n_places), places.data(), shares.data()};
  check_length(places.shape(1), rows.features.size(), "a row of places");
  check_length(shares.shape(0), rows.rows, "shares");
  check_length(shares.shape(1), rows.features.size(), "a row of shares");
  check_places(rows);
  return rows;
}

void predict(Order kinds, Order columns, Order n_places, Places places, Shares shares, Networks U, Matrix alpha,
             OutMatrix outputs) {
  const dconnet::CodedRows rows = rows_of(kinds, columns, n_places, places, shares);
  check_length(U.shape(0), alpha.shape(0), "U");
  check_length(U.shape(1), rows.columns(), "U");
  check_length(U.shape(2), alpha.shape(1), "U");
  check_shape(outputs, rows.rows, alpha.shape(0), "outputs");
  nb::gil_scoped_release unlocked;
  dconnet::predict(rows, U.data(), alpha.data(), alpha.shape(0), alpha.shape(1), outputs.data());
}

std::vector<std::size_t> short_fits(Order kinds, Order columns, Order n_places, Places places, Shares shares,
                                    Matrix from_white, Vector weights, Matrix targets, Order which, Vector gammas,
                                    Order seeds, std::size_t evaluations, double seconds, OutNetworks V, OutMatrix alpha) {
  const dconnet::CodedRows rows = rows_of(kinds, columns, n_places, places, shares);
  const std::size_t n_fits = gammas.size(), n_hidden = alpha.shape(1), rank = from_white.shape(1);
  check_length(from_white.shape(0), rows.columns(), "from_white");
  check_length(weights.size(), rows.rows, "weights");
  check_length(targets.shape(1), rows.rows, "a row of targets");
  check_length(which.size(), n_fits, "which");
  if (seeds.size() > 0) check_length(seeds.size(), n_fits, "seeds");
  check_length(alpha.shape(0), n_fits, "alpha");
  check_length(V.shape(0), n_fits, "V");
  check_length(V.shape(1), n_hidden, "V");
  check_length(V.shape(2), rank, "V");
  for (std::size_t i = 0; i < n_fits; ++i) {
    if (which.data()[i] >= targets.shape(0)) throw nb::value_error("which names a target that does not exist");
  }
  std::vector<std::size_t> used(n_fits);
  Watch watch(seconds);
  {
    nb::gil_scoped_release unlocked;
    dconnet::CodedObjective objective(rows, from_white.data(), rank, weights.data(), n_hidden);
    for (std::size_t i = 0; i < n_fits && !watch.failed(); ++i) {
      const double* y = targets.data() + which.data()[i] * rows.rows;
      double* v = V.data() + i * n_hidden * rank;
      double* a = alpha.data() + i * n_hidden;
      if (seeds.size() > 0) dconnet::start_at_random(objective, y, seeds.data()[i], v, a);
      used[i] = dconnet::fit_shortly(objective, y, gammas.data()[i], evaluations, [&watch] { return watch.proceed(); },
                                     v, a).evaluations;
    }
  }
  watch.raise();
  return used;
}

}  // namespace

namespace {

void make_sign_search(Bound<dconnet::SignSearch>* search, Matrix G, Vector g, Vector alpha, Vector slopes, Vector low,
                      Vector high, Vector step) {
  const std::size_t rows = G.shape(0), columns = G.shape(1);
  check_length(g.shape(0), rows, "g");
  check_length(slopes.shape(0), columns, "slopes");
  for (const Vector* each : {&low, &high, &step}) check_length(each->shape(0), rows + columns, "low, high or step");
  if (alpha.shape(0) > rows) throw nb::value_error("alpha has the wrong length");
  new (search) Bound<dconnet::SignSearch>(G.data(), g.data(), alpha.data(), slopes.data(), low.data(), high.data(),
                                   step.data(), alpha.shape(0), rows - alpha.shape(0), columns);
}

void search_sphere(Matrix Q, Vector r, double floor, OutVector values, OutMatrix directions) {
  check_shape(Q, Q.shape(0), 3, "Q");
  check_length(r.size(), Q.shape(0), "r");
  check_length(values.size(), Q.shape(0), "values");
  check_shape(directions, Q.shape(0), 3, "directions");
  Watch watch(std::numeric_limits<double>::infinity());
  {
    nb::gil_scoped_release unlocked;
    dconnet::Arrangement arrangement(Q.data(), Q.shape(0));
    arrangement.search(r.data(), floor, [&watch] { return watch.proceed(); }, values.data(), directions.data());
  }
  watch.raise();
}

void make_cone_search(Bound<dconnet::ConeSearch>* self, Matrix Q, Vector r) {
  check_length(r.size(), Q.shape(0), "r");
  if (Q.shape(1) < 2 || Q.shape(1) > dconnet::ConeSearch::kMostColumns) {
    throw nb::value_error("Q must have between two and eight columns");
  }
  new (self) Bound<dconnet::ConeSearch>(Q.data(), r.data(), Q.shape(0), Q.shape(1));
}

bool search_cones(dconnet::ConeSearch& self, double relative_gap, double enough, std::size_t most_parts,
                  std::size_t most_waiting, double seconds) {
  Watch watch(seconds);
  bool closed;
  {
    nb::gil_scoped_release unlocked;
    closed = self.run(relative_gap, enough, most_parts, most_waiting, [&watch] { return watch.proceed(); });
  }
  watch.raise();
  return closed;
}

void try_direction(dconnet::ConeSearch& self, Vector v) {
  check_length(v.size(), self.point().size(), "v");
  self.try_point(v.data());
}

}  // namespace

NB_MODULE(_native, module) {
  module.doc() = "The C++ kernel of dconnet.";
  module.attr("AVX2") = dconnet::instructions != dconnet::Instructions::kPlain;
  module.attr("FMA") = dconnet::instructions >= dconnet::Instructions::kFma;
  module.attr("AVX512") = dconnet::instructions == dconnet::Instructions::kAvx512;
  module.attr("DCA_TOLERANCE") = dconnet::kDcaTolerance;
  module.attr("KINK_TOLERANCE") = dconnet::kNeuronKinkTolerance;
  module.attr("LEAST_KINK_NOISE") = dconnet::kLeastKinkNoise;
  module.attr("ROUNDING") = dconnet::kObjectiveRounding;
  module.attr("SUFFICIENT_DECREASE") = dconnet::kSufficientDecrease;
  nb::class_<Stop>(module, "Stop", "A request of one thread that others stop.")
      .def(nb::init<>())
      .def("set", [](Stop& self) { self.is_set = true; })
      .def("is_set", [](const Stop& self) { return self.is_set.load(); });
  module.def("watch", [](const Stop* stop) { watched_stop = stop; }, nb::arg("stop").none(),
             "Let the kernel raise KeyboardInterrupt in this thread once this is set; None ends that.");
  nb::class_<Bound<dconnet::Team>>(module, "Team", "Threads that share the rows; kernel objects that take turns may share one.")
      .def(nb::init<std::size_t>(), nb::arg("size"))
      .def_prop_ro("size", [](const Bound<dconnet::Team>& self) { return self.size(); });
  nb::class_<Bound<ProgrammeSolver>>(module, "Solver", "Solves convex programmes over one design.")
      .def("__init__",
           [](Bound<ProgrammeSolver>* self, Matrix design, std::size_t columns) {
             new (self) Bound<ProgrammeSolver>(view_of(design, columns));
           },
           nb::keep_alive<1, 2>(), no_copy("design"), nb::arg("columns"))
      .def("solve", alone(&solve), nb::arg("linear"), nb::arg("slope"), nb::arg("curvature"), nb::arg("gamma"),
           nb::arg("tolerance"), nb::arg("max_iterations"), nb::arg("start_value"), nb::arg("share"), no_copy("v"),
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
           nb::keep_alive<1, 2>(), no_copy("design"), nb::arg("columns"), nb::arg("n_hidden"), nb::arg("n_outputs"),
           nb::arg("team") = nb::none())
      .def("run", alone(&sweep), nb::arg("y"), nb::arg("alpha"), nb::arg("gamma"), nb::arg("order"), nb::arg("net_split"),
           nb::arg("max_dca_iterations"), nb::arg("max_solver_iterations"), nb::arg("tolerance"), nb::arg("seconds"),
           no_copy("V"), nb::arg("kinks") = nb::none(),
           "Improve the neurons in the given order, V (n_hidden, rank) in place, for y (n_rows, n_outputs) and alpha "
           "(n_hidden, n_outputs). A row at the kink of a neuron is active if its product with the neuron's row of kinks "
           "(n_hidden, rank) is positive, or always without kinks. Returns the neurons done, the programmes solved, the "
           "iterations for them, the steps refused and the programmes not solved to tolerance.");
  nb::class_<Bound<SweepLeaves>>(module, "SweepLeaves", "A run of whole leaves of rows, for a sweep that is driven from elsewhere.")
      .def("__init__",
           [](Bound<SweepLeaves>* self, Matrix design, std::size_t columns, Matrix y, std::size_t n_hidden,
              std::size_t first_leaf, std::size_t first_row, const GivenTeam& team) {
             check_targets(y, design);
             make(self, team, view_of(design, columns), y, n_hidden, first_leaf, first_row);
           },
           nb::keep_alive<1, 2>(), no_copy("design"), nb::arg("columns"), nb::arg("y"), nb::arg("n_hidden"),
           nb::arg("first_leaf"), nb::arg("first_row"), nb::arg("team") = nb::none())
      .def("answer", alone(&answer), nb::arg("round"),
           "Answer the questions of a RemoteSweep. Its whole answer is what all who have leaves say, in the order of these.");
  nb::class_<Bound<RemoteSweep>>(module, "RemoteSweep", "Sweeps over the neurons of a network, on rows that others have.")
      .def(nb::init<std::vector<std::size_t>, std::size_t, std::size_t, std::size_t, nb::callable, std::size_t>(),
           nb::arg("rows"), nb::arg("columns"), nb::arg("n_hidden"), nb::arg("n_outputs"), nb::arg("ask"),
           nb::arg("most_numbers"),
           "`rows` is a list: how many rows each of those has who are asked. If a programme needs all rows, they are fetched "
           "unless they have more than `most_numbers`; then its neuron stays where it is.")
      .def("run", alone(&RemoteSweep::run), nb::arg("alpha"), nb::arg("gamma"), nb::arg("order"), nb::arg("net_split"),
           nb::arg("max_dca_iterations"), nb::arg("max_solver_iterations"), nb::arg("tolerance"), nb::arg("seconds"),
           no_copy("V"), nb::arg("kinks") = nb::none(), "As Sweep.run; ask(round) returns the answers of all who have leaves, one after the other.");
  module.attr("LEAF") = dconnet::kLeaf;
  module.def("has_far_rows", &dconnet::FarRows::pays_for, nb::arg("rows"), nb::arg("columns"),
             "Whether rows are so many that a sweep solves programmes over those near their kinks alone.");
  nb::class_<Bound<NetworkObjective>>(module, "Objective", "F, m times RegLoss, of whole networks on one design.")
      .def("__init__",
           [](Bound<NetworkObjective>* self, Matrix design, std::size_t columns, Matrix y, double gamma,
              std::size_t n_hidden, const GivenTeam& team) {
             check_targets(y, design);
             make(self, team, view_of(design, columns), y, gamma, n_hidden);
           },
           nb::keep_alive<1, 2>(), nb::keep_alive<1, 4>(), no_copy("design"), nb::arg("columns"), no_copy("y"),
           nb::arg("gamma"), nb::arg("n_hidden"), nb::arg("team") = nb::none())
      .def("gradient", alone(&gradient), nb::arg("V"), nb::arg("alpha"), no_copy("gradient_V"), no_copy("gradient_alpha"),
           "Write the gradient of F at V (n_hidden, rank) and alpha (n_hidden, n_outputs), and return F.")
      .def("solve_output_weights", alone(&solve_output_weights), nb::arg("V"), no_copy("alpha"),
           "Write the minimiser of F over the output weights for V (n_hidden, rank) into alpha.")
      .def("block_sums", alone(&block_sums), nb::arg("kind"), nb::arg("input"), nb::arg("first_leaf"),
           "Sums over the rows that `RemoteExplorer` asks for, for blocks of leaves, the first of which has this number. "
           "Returns the first leaf of each block, the logarithm of its length, and its sums.");
  nb::class_<Bound<dconnet::Explorer>>(module, "Explorer", "Searches for a low minimum by L-BFGS and hops.")
      .def("__init__", &make_explorer, nb::keep_alive<1, 2>(), nb::keep_alive<1, 4>(), no_copy("design"),
           nb::arg("columns"), no_copy("y"), nb::arg("gamma"), nb::arg("n_hidden"), nb::arg("starts"),
           nb::arg("samples"), nb::arg("burst"), nb::arg("hop"), nb::arg("stalled"), nb::arg("patience"), nb::arg("revive"), nb::arg("seed"),
           nb::arg("team") = nb::none())
      .def("explore", alone(&explore), nb::arg("evaluations"), nb::arg("seconds"), no_copy("V"), no_copy("alpha"),
           "Go on from V (n_hidden, rank) and alpha (n_hidden, n_outputs), and write there what was reached. Returns "
           "the evaluations, the hops tried and accepted, the neurons revived, and those that carry nothing.")
      .def_prop_ro("settled", alone(&dconnet::Explorer::settled), "Whether all hops have been tried in vain.")
      .def("state", alone(&dconnet::Explorer::state), "What a call of `explore` leaves to the next, as words of 64 bits.")
      .def("restore", alone(&restore<dconnet::Explorer>), nb::arg("state"), "Take over what `state` returned.");
  nb::class_<Bound<RemoteExplorer>>(module, "RemoteExplorer", "The same, over rows that somebody else holds.")
      .def("__init__", &make_remote_explorer, nb::arg("remote"), nb::arg("rows"), nb::arg("columns"), nb::arg("n_outputs"),
           nb::arg("target_square"), nb::arg("gamma"), nb::arg("n_hidden"), nb::arg("starts"), nb::arg("samples"),
           nb::arg("burst"), nb::arg("hop"), nb::arg("stalled"), nb::arg("patience"), nb::arg("revive"), nb::arg("seed"),
           nb::arg("most_numbers"), nb::arg("team") = nb::none(),
           "Over rows whose sums `remote.sums(kind, input)` tells, and copies of which `remote.rows(numbers)`; samples have at "
           "most so many numbers.")
      .def("explore", alone(&explore_remotely), nb::arg("evaluations"), nb::arg("seconds"), no_copy("V"), no_copy("alpha"))
      .def_prop_ro("settled", alone(&settled<RemoteExplorer>))
      .def("state", alone(&state_of<RemoteExplorer>))
      .def("restore", alone(&restore<RemoteExplorer>), nb::arg("state"));
  nb::class_<Bound<dconnet::SignSearch>>(module, "SignSearch", "Branch and bound over the signs of neurons.")
      .def("__init__", &make_sign_search, nb::arg("G"), nb::arg("g"), nb::arg("alpha"), nb::arg("slopes"),
           nb::arg("low"), nb::arg("high"), nb::arg("step"))
      .def("run", alone(&dconnet::SignSearch::run), nb::arg("seconds"), nb::arg("relative_gap"), nb::arg("absolute_gap"),
           nb::arg("offset"), nb::call_guard<nb::gil_scoped_release>(),
           "Go on for some seconds; true when the gap is closed.")
      .def_prop_ro("has_point", alone(&dconnet::SignSearch::has_point))
      .def_prop_ro("best", alone(&dconnet::SignSearch::best))
      .def_prop_ro("bound", alone(&dconnet::SignSearch::bound))
      .def_prop_ro("point", alone(&dconnet::SignSearch::point))
      .def_prop_ro("nodes", alone(&dconnet::SignSearch::nodes))
      .def_prop_ro("waiting", alone(&dconnet::SignSearch::waiting));
  module.def("search_sphere", &search_sphere, nb::arg("Q"), nb::arg("r"), nb::arg("floor"), no_copy("values"), no_copy("directions"),
             "Write, for the circle of every row of Q (n_rows, 3), the largest |r'max(Qv, 0)| on it and beside it that is "
             "promising and not below the floor, and its direction.");
  nb::class_<Bound<dconnet::ConeSearch>>(module, "ConeSearch", "Branch and bound over cones of directions.")
      .def("__init__", &make_cone_search, nb::arg("Q"), nb::arg("r"))
      .def("try_point", alone(&try_direction), nb::arg("v"), "Look at a direction, of any length.")
      .def("run", alone(&search_cones), nb::arg("relative_gap"), nb::arg("enough"), nb::arg("most_parts"),
           nb::arg("most_waiting"), nb::arg("seconds"),
           "Go on until no part has a bound above both `enough` and the best value by more than the gap: then true.")
      .def_prop_ro("best", alone(&dconnet::ConeSearch::best))
      .def_prop_ro("bound", alone(&dconnet::ConeSearch::bound))
      .def_prop_ro("point", alone(&dconnet::ConeSearch::point))
      .def_prop_ro("parts", alone(&dconnet::ConeSearch::parts));
  module.def("predict", &predict, nb::arg("kinds"), nb::arg("columns"), nb::arg("n_places"), nb::arg("places"),
             nb::arg("shares"), nb::arg("U"), nb::arg("alpha"), no_copy("outputs"),
             "Write the outputs (n_rows, n_networks) of networks for coded rows.");
  module.def("short_fits", &short_fits, nb::arg("kinds"), nb::arg("columns"), nb::arg("n_places"), nb::arg("places"),
             nb::arg("shares"), nb::arg("from_white"), nb::arg("weights"), nb::arg("targets"), nb::arg("which"),
             nb::arg("gammas"), nb::arg("seeds"), nb::arg("evaluations"), nb::arg("seconds"), no_copy("V"),
             no_copy("alpha"),
             "Train a network by plain L-BFGS for each gamma, target and seed, on the same coded rows, and write V and "
             "alpha; without seeds, go on from the V and alpha that are there. Returns the evaluations of each.");
}
