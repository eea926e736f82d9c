// Global optima over the inputs or the directions of neurons for Python.
#include "arrangement.hpp"
#include "bindings.hpp"
#include "cone_search.hpp"
#include "sign_search.hpp"

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

void bind_optima(nb::module_& module) {
  nb::class_<Bound<dconnet::SignSearch>>(module, "SignSearch", "Branch and bound over the signs of neurons.")
      .def("__init__", &make_sign_search, "G"_a, "g"_a, "alpha"_a, "slopes"_a,
           "low"_a, "high"_a, "step"_a)
      .def("run", alone(&dconnet::SignSearch::run), "seconds"_a, "relative_gap"_a, "absolute_gap"_a,
           "offset"_a, nb::call_guard<nb::gil_scoped_release>(),
           "Go on for some seconds; true when the gap is closed.")
      .def_prop_ro("has_point", alone(&dconnet::SignSearch::has_point))
      .def_prop_ro("best", alone(&dconnet::SignSearch::best))
      .def_prop_ro("bound", alone(&dconnet::SignSearch::bound))
      .def_prop_ro("point", alone(&dconnet::SignSearch::point))
      .def_prop_ro("nodes", alone(&dconnet::SignSearch::nodes))
      .def_prop_ro("waiting", alone(&dconnet::SignSearch::waiting));
  module.def("search_sphere", &search_sphere, "Q"_a, "r"_a, "floor"_a, no_copy("values"), no_copy("directions"),
             "Write, for the circle of every row of Q (n_rows, 3), the largest |r'max(Qv, 0)| on it and beside it that is "
             "promising and not below the floor, and its direction.");
  nb::class_<Bound<dconnet::ConeSearch>>(module, "ConeSearch", "Branch and bound over cones of directions.")
      .def("__init__", &make_cone_search, "Q"_a, "r"_a)
      .def("try_point", alone(&try_direction), "v"_a, "Look at a direction, of any length.")
      .def("run", alone(&search_cones), "relative_gap"_a, "enough"_a, "most_parts"_a,
           "most_waiting"_a, "seconds"_a,
           "Go on until no part has a bound above both `enough` and the best value by more than the gap: then true.")
      .def_prop_ro("best", alone(&dconnet::ConeSearch::best))
      .def_prop_ro("bound", alone(&dconnet::ConeSearch::bound))
      .def_prop_ro("point", alone(&dconnet::ConeSearch::point))
      .def_prop_ro("parts", alone(&dconnet::ConeSearch::parts));
}
