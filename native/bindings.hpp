// Shared by the files that bind the kernel to Python: array types, checks, the lock of an object, and the watch over a call.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "design.hpp"
#include "team.hpp"

namespace nb = nanobind;
using namespace nb::literals;

using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Vector = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Order = nb::ndarray<const std::size_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using OutMatrix = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using OutVector = nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// An argument that is written to, or read after the call: it must be the caller's own array and not a converted copy.
inline auto no_copy(const char* name) { return nb::arg(name).noconvert(); }

inline void check_length(std::size_t length, std::size_t expected, const char* name) {
  if (length != expected) {
    throw nb::value_error((std::string(name) + " has the wrong length: must be " + std::to_string(expected) + ", got " +
                           std::to_string(length)).c_str());
  }
}

template <typename Array>
void check_shape(const Array& matrix, std::size_t rows, std::size_t columns, const char* name) {
  if (matrix.shape(0) == rows && matrix.shape(1) == columns) return;
  throw nb::value_error((std::string(name) + " must have the shape (" + std::to_string(rows) + ", " +
                         std::to_string(columns) + "), got (" + std::to_string(matrix.shape(0)) + ", " +
                         std::to_string(matrix.shape(1)) + ")").c_str());
}

// Targets are of shape (rows, n_outputs).
inline void check_targets(const Matrix& y, const Matrix& design) {
  if (y.shape(1) == 0) throw nb::value_error("y must have at least one column");
  check_shape(y, design.shape(0), y.shape(1), "y");
}

// The rows of the design, which Python has padded with zeros and keeps alive.
inline dconnet::Design view_of(const Matrix& padded, std::size_t columns) {
  constexpr std::size_t most = std::numeric_limits<dconnet::Row>::max();
  if (padded.shape(0) > most) {
    throw nb::value_error(("the design has " + std::to_string(padded.shape(0)) + " rows, but the kernel numbers at most " +
                           std::to_string(most)).c_str());
  }
  check_length(padded.shape(1), dconnet::round_up_to_lanes(columns), "a row of the design");
  return dconnet::Design::view(padded.data(), padded.shape(0), columns);
}

// A kernel object. It owns its working memory, and so serves one thread at a time, and its team as well.
template <typename Kernel>
struct Bound : Kernel {
  using Kernel::Kernel;

  std::atomic<bool> in_use{false};
  std::atomic<bool>* team_in_use = nullptr;  // null without a team that is shared
};

using GivenTeam = std::shared_ptr<Bound<dconnet::Team>>;

// Reserves an object, if there is one, for the time of a call.
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

// A request to stop. Ctrl-C reaches the main thread of Python alone, which passes it on to other threads with this.
struct StopRequest {
  std::atomic<bool> is_set{false};
};

// The request that the kernel watches in this thread besides signals; Python keeps it alive.
inline thread_local const StopRequest* watched_stop = nullptr;

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
    return !failed() && spent() < seconds_;
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

  double spent() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }
  bool failed() const { return error_ != nullptr; }
  // Throws the exception that was kept, if any; with Python's lock.
  void raise() {
    if (failed()) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point began_, last_check_;
  double seconds_;
  const StopRequest* stop_;
  std::exception_ptr error_;
};

void bind_sweeps(nb::module_& module);
void bind_searches(nb::module_& module);
void bind_optima(nb::module_& module);
