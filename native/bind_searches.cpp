// Evaluations of whole networks and searches over their weights for Python: `Objective`, `Explorer`, short fits.
#include "bindings.hpp"
#include "boosting.hpp"
#include "coded_rows.hpp"
#include "explorer.hpp"
#include "objective.hpp"
#include "short_fit.hpp"

namespace {

void solve_output_weights(dconnet::OwnObjective& self, Matrix V, OutMatrix alpha) {
  const dconnet::Layout& layout = self.layout();
  check_shape(V, layout.n_hidden, layout.columns, "V");
  check_shape(alpha, layout.n_hidden, layout.n_outputs, "alpha");
  nb::gil_scoped_release unlocked;
  std::vector<double> theta(layout.size()), hidden(V.size());
  layout.pack(V.data(), alpha.data(), theta.data());
  self.solve_output_weights(theta.data());
  layout.unpack(theta.data(), hidden.data(), alpha.data());
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

Blocks block_sums(dconnet::OwnObjective& self, unsigned kind, Vector input, std::size_t first_leaf) {
  const dconnet::Ask ask = static_cast<dconnet::Ask>(kind);
  if (ask > dconnet::Ask::kMatches) throw nb::value_error(("there are no sums of the kind " + std::to_string(kind)).c_str());
  const dconnet::Layout& layout = self.layout();
  const bool has_directions = ask == dconnet::Ask::kMatches;
  const std::size_t beyond = input.size() > layout.size() ? input.size() - layout.size() : 0;
  const std::size_t directions = has_directions ? beyond / layout.stride : 0;
  check_length(input.size(), layout.size() + directions * layout.stride, "input");
  const dconnet::LeafTree* tree;
  {
    nb::gil_scoped_release unlocked;
    tree = &self.leaf_sums(ask, input.data(), directions).blocks(first_leaf);
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
      const auto found = nb::cast<Vector>(remote_.attr("sums")(static_cast<unsigned>(ask), question));
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

// An explorer over rows of other processes.
void make_remote_explorer(Bound<dconnet::Explorer>* self, nb::object remote, std::size_t rows, std::size_t columns,
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

void restore(dconnet::Explorer& self, const std::vector<std::uint64_t>& state) {
  if (!self.restore(state)) throw nb::value_error("this is not the state of an explorer");
}

using Explored = std::tuple<std::size_t, std::size_t, std::size_t, std::size_t, std::size_t>;

Explored explore(dconnet::Explorer& self, std::size_t evaluations, double seconds, OutMatrix V, OutMatrix alpha) {
  const dconnet::Layout& layout = self.layout();
  check_shape(V, layout.n_hidden, layout.columns, "V");
  check_shape(alpha, layout.n_hidden, layout.n_outputs, "alpha");
  Watch watch(seconds);
  if (auto* remote = dynamic_cast<RemoteEvaluations*>(&self.evaluations())) remote->set_watch(watch);
  dconnet::Exploration done;
  {
    nb::gil_scoped_release unlocked;
    done = self.explore(evaluations, [&watch] { return watch.proceed(); }, V.data(), alpha.data());
  }
  watch.raise();
  return {done.evaluations, done.hops, done.accepted, done.revived, done.barren};
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

void short_fits(Order kinds, Order columns, Order n_places, Places places, Shares shares, Matrix from_white, Vector weights,
                Matrix targets, Order which, Vector gammas, Order seeds, std::size_t evaluations, double seconds, OutNetworks V,
                OutMatrix alpha) {
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
  Watch watch(seconds);
  {
    nb::gil_scoped_release unlocked;
    dconnet::CodedObjective objective(rows, from_white.data(), rank, weights.data(), n_hidden);
    for (std::size_t i = 0; i < n_fits && !watch.failed(); ++i) {
      const double* y = targets.data() + which.data()[i] * rows.rows;
      double* v = V.data() + i * n_hidden * rank;
      double* a = alpha.data() + i * n_hidden;
      if (seeds.size() > 0) dconnet::start_at_random(objective, y, seeds.data()[i], v, a);
      dconnet::fit_shortly(objective, y, gammas.data()[i], evaluations, [&watch] { return watch.proceed(); }, v, a);
    }
  }
  watch.raise();
}

using Integers = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using IntegerMatrix = nb::ndarray<const std::int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using OutIntegers = nb::ndarray<std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using OutIntegerMatrix = nb::ndarray<std::int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// Rounds after which the time of all rounds is estimated.
constexpr std::size_t kFirstRounds = 5;

std::size_t boost(Matrix X, Vector target, Vector weights, Vector baseline, std::size_t loss, std::size_t n_leaves,
                  std::size_t max_depth, std::size_t min_leaf, std::size_t n_bins, double learning_rate, double leaf_penalty,
                  double seconds, OutIntegers columns, OutVector thresholds,
                  OutIntegerMatrix children, OutVector values, OutIntegerMatrix roots) {
  const std::size_t n_outputs = baseline.size(), n_rounds = roots.shape(0);
  const std::size_t n_nodes = n_rounds * n_outputs * (2 * n_leaves - 1);
  check_length(target.size(), X.shape(0), "target");
  check_length(weights.size(), X.shape(0), "weights");
  check_length(roots.shape(1), n_outputs, "a row of roots");
  check_length(columns.size(), n_nodes, "columns");
  check_length(thresholds.size(), n_nodes, "thresholds");
  check_shape(children, n_nodes, 2, "children");
  check_length(values.size(), n_nodes, "values");
  if (loss > 2 || X.shape(1) == 0 || n_leaves == 0 || min_leaf == 0 || n_bins < 2 || n_bins > 255) {
    throw nb::value_error("boosting needs a loss of 0, 1 or 2, a column, a leaf, a row in it, and 2 to 255 bins");
  }
  const dconnet::BoostingOptions options{static_cast<dconnet::BoostingLoss>(loss), n_rounds, n_leaves, max_depth, min_leaf,
                                         n_bins, learning_rate, leaf_penalty};
  const dconnet::BoostingRows rows{X.data(), X.shape(0), X.shape(1), target.data(), weights.data()};
  const dconnet::GrownNodes nodes{columns.data(), thresholds.data(), children.data(), values.data(), roots.data()};
  Watch watch(seconds);
  std::size_t used = 0;
  {
    nb::gil_scoped_release unlocked;
    const auto proceed = [&](std::size_t n_done) {
      const double share = static_cast<double>(n_done) / static_cast<double>(n_rounds * n_outputs);
      return watch.proceed() && (n_done < kFirstRounds * n_outputs || watch.spent() <= seconds * share);
    };
    used = dconnet::boost(rows, options, baseline.data(), n_outputs, proceed, nodes);
  }
  watch.raise();
  return used;
}

void add_trees(Integers columns, Vector thresholds, IntegerMatrix children, Vector values, IntegerMatrix roots, Order ends,
               Matrix X, OutNetworks outputs) {
  check_length(outputs.shape(0), X.shape(0), "outputs");
  check_length(outputs.shape(1), ends.size(), "a row of outputs");
  check_length(outputs.shape(2), roots.shape(1), "outputs of a row");
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (ends.data()[i] > roots.shape(0) || (i > 0 && ends.data()[i] < ends.data()[i - 1])) {
      throw nb::value_error("ends must ascend up to the number of rounds");
    }
  }
  const std::size_t n_nodes = values.size();
  check_length(columns.size(), n_nodes, "columns");
  check_length(thresholds.size(), n_nodes, "thresholds");
  check_shape(children, n_nodes, 2, "children");
  const auto all_below = [](const auto& array, std::size_t size, std::size_t limit) {
    return std::all_of(array.data(), array.data() + size,
                       [&](std::int32_t i) { return i >= 0 && static_cast<std::size_t>(i) < limit; });
  };
  if (!all_below(columns, n_nodes, 2 * X.shape(1)) || !all_below(children, 2 * n_nodes, n_nodes) ||
      !all_below(roots, roots.size(), n_nodes)) {
    throw nb::value_error("a tree has a node or a column that does not exist");
  }
  for (std::size_t i = 0; i < n_nodes; ++i) {
    const std::size_t first = static_cast<std::size_t>(children(i, 0)), second = static_cast<std::size_t>(children(i, 1));
    if ((first != i || second != i) && (first <= i || second <= i)) {
      throw nb::value_error("the children of a node must come after it, or be the node itself in a leaf");
    }
  }
  nb::gil_scoped_release unlocked;
  dconnet::add_trees({columns.data(), thresholds.data(), children.data(), values.data()}, roots.data(), ends.data(), ends.size(),
                     roots.shape(1), X.data(), X.shape(0), X.shape(1), outputs.data());
}

}  // namespace

void bind_searches(nb::module_& module) {
  nb::class_<Bound<dconnet::OwnObjective>>(module, "Objective", "F, m times RegLoss, of whole networks on one design.")
      .def("__init__",
           [](Bound<dconnet::OwnObjective>* self, Matrix design, std::size_t columns, Matrix y, double gamma,
              std::size_t n_hidden, const GivenTeam& team) {
             check_targets(y, design);
             make(self, team, view_of(design, columns), y.data(), gamma, n_hidden, y.shape(1));
           },
           nb::keep_alive<1, 2>(), nb::keep_alive<1, 4>(), no_copy("design"), "columns"_a, no_copy("y"),
           "gamma"_a, "n_hidden"_a, "team"_a = nb::none())
      .def("solve_output_weights", alone(&solve_output_weights), "V"_a, no_copy("alpha"),
           "Write the minimiser of F over the output weights for V (n_hidden, rank) into alpha.")
      .def("block_sums", alone(&block_sums), "kind"_a, "input"_a, "first_leaf"_a,
           "Sums over the rows that an explorer over remote rows asks for, for blocks of leaves, the first of which has this number. "
           "Returns the first leaf of each block, the logarithm of its length, and its sums.");
  nb::class_<Bound<dconnet::Explorer>>(module, "Explorer", "Searches for a low minimum by L-BFGS and hops.")
      .def("__init__", &make_explorer, nb::keep_alive<1, 2>(), nb::keep_alive<1, 4>(), no_copy("design"),
           "columns"_a, no_copy("y"), "gamma"_a, "n_hidden"_a, "starts"_a,
           "samples"_a, "burst"_a, "hop"_a, "stalled"_a, "patience"_a, "revive"_a, "seed"_a,
           "team"_a = nb::none())
      .def("__init__", &make_remote_explorer, "remote"_a, "rows"_a, "columns"_a, "n_outputs"_a, "target_square"_a, "gamma"_a,
           "n_hidden"_a, "starts"_a, "samples"_a, "burst"_a, "hop"_a, "stalled"_a, "patience"_a, "revive"_a, "seed"_a,
           "most_numbers"_a, "team"_a = nb::none(),
           "Over rows of other processes: `remote.sums(kind, input)` returns sums over the rows, and `remote.rows(numbers)` copies of "
           "rows; samples have at most `most_numbers` numbers.")
      .def("explore", alone(&explore), "evaluations"_a, "seconds"_a, no_copy("V"), no_copy("alpha"),
           "Go on from V (n_hidden, rank) and alpha (n_hidden, n_outputs), and write there what was reached. Returns "
           "the evaluations, the hops tried and accepted, the neurons revived, and those that carry nothing.")
      .def_prop_ro("settled", alone(&dconnet::Explorer::settled),
                   "Whether no more hops are tried, because too many have failed in a row.")
      .def("state", alone(&dconnet::Explorer::state), "What a call of `explore` leaves to the next, as words of 64 bits.")
      .def("restore", alone(&restore), "state"_a, "Take over what `state` returned.");
  module.def("predict", &predict, "kinds"_a, "columns"_a, "n_places"_a, "places"_a,
             "shares"_a, "U"_a, "alpha"_a, no_copy("outputs"),
             "Write the outputs (n_rows, n_networks) of networks for coded rows.");
  module.def("short_fits", &short_fits, "kinds"_a, "columns"_a, "n_places"_a, "places"_a,
             "shares"_a, "from_white"_a, "weights"_a, "targets"_a, "which"_a,
             "gammas"_a, "seeds"_a, "evaluations"_a, "seconds"_a, no_copy("V"),
             no_copy("alpha"),
             "Train a network by plain L-BFGS for each gamma, target and seed, on the same coded rows, and write V and "
             "alpha; without seeds, continue from the given V and alpha.");
  module.def("boost", &boost, "X"_a, "target"_a, "weights"_a, "baseline"_a, "loss"_a, "n_leaves"_a, "max_depth"_a, "min_leaf"_a,
             "n_bins"_a, "learning_rate"_a, "leaf_penalty"_a, "seconds"_a, no_copy("columns"),
             no_copy("thresholds"), no_copy("children"), no_copy("values"), no_copy("roots"),
             "Train boosted trees and write their nodes. Returns the number of nodes; zero as soon as they cannot end in time.");
  module.def("add_trees", &add_trees, "columns"_a, "thresholds"_a, "children"_a, "values"_a, "roots"_a, "ends"_a, "X"_a,
             no_copy("outputs"),
             "Add the values of trees to outputs (n_rows, n_ends, n_outputs), for the first ends[i] rounds.");
}
