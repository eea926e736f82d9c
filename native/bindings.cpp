// The border to Python: typed contiguous arrays in, results written in place, no lock held while computing.
#include "bindings.hpp"

#include "dispatch.hpp"
#include "explorer.hpp"
#include "majoriser.hpp"
#include "neuron.hpp"

NB_MODULE(_native, module) {
  module.doc() = "The C++ kernel of dconnet.";
  module.attr("AVX2") = dconnet::instructions != dconnet::Instructions::kPlain;
  module.attr("FMA") = dconnet::fuses();
  module.attr("AVX512") = dconnet::instructions == dconnet::Instructions::kAvx512;
  module.attr("DCA_TOLERANCE") = dconnet::kDcaTolerance;
  module.attr("KINK_TOLERANCE") = dconnet::kNeuronKinkTolerance;
  module.attr("LEAST_KINK_NOISE") = dconnet::kLeastKinkNoise;
  module.attr("ROUNDING") = dconnet::kObjectiveRounding;
  module.attr("SUFFICIENT_DECREASE") = dconnet::kSufficientDecrease;
  module.attr("WALK_DECREASE") = dconnet::kWalkDecrease;
  module.attr("LEAF") = dconnet::kLeaf;
  nb::class_<StopRequest>(module, "Stop", "A request of one thread that others stop.")
      .def(nb::init<>())
      .def("set", [](StopRequest& self) { self.is_set = true; })
      .def("is_set", [](const StopRequest& self) { return self.is_set.load(); });
  module.def("watch", [](const StopRequest* stop) { watched_stop = stop; }, "stop"_a.none(),
             "Let the kernel raise KeyboardInterrupt in this thread once this is set; None ends that.");
  nb::class_<Bound<dconnet::Team>>(module, "Team", "Threads that share the rows; kernel objects that take turns may share one.")
      .def(nb::init<std::size_t>(), "size"_a)
      .def_prop_ro("size", [](const Bound<dconnet::Team>& self) { return self.size(); });
  bind_sweeps(module);
  bind_searches(module);
  bind_optima(module);
}
