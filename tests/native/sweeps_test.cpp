// Tests of sweeps, meant to run under sanitizers: `make sanitize`. F never rises, all programmes are solved, and a sweep allocates
// nothing.
#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>

#include "sweep.hpp"
#include "testing.hpp"

// Every allocation is counted.

static std::atomic<std::size_t> allocations{0};

#ifndef _WIN32  // which has no aligned_alloc: allocations are not counted there
// Not inlined: where only one of new and delete is, GCC sees malloc meet delete, or new meet free, and warns.
#define NOT_INLINED __attribute__((noinline))

NOT_INLINED void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}

NOT_INLINED void* operator new(std::size_t size, std::align_val_t alignment) {
  ++allocations;
  const std::size_t unit = static_cast<std::size_t>(alignment);
  if (void* memory = std::aligned_alloc(unit, (size + unit - 1) / unit * unit)) return memory;
  throw std::bad_alloc();
}

NOT_INLINED void operator delete(void* memory) noexcept { std::free(memory); }
NOT_INLINED void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
NOT_INLINED void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
NOT_INLINED void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
#endif

namespace {

using dconnet::Limits;
using dconnet::Split;
using dconnet::Sweep;
using dconnet::Tally;
using Random = TestRandom;

constexpr double kRounding = 1e-12;

struct Training {
  Training(std::size_t rows, std::size_t columns, std::size_t n_hidden, double gamma, double scale,
           std::size_t n_outputs = 1)
      : rows(rows), columns(columns), n_hidden(n_hidden), n_outputs(n_outputs), gamma(gamma), order(n_hidden) {
    Random random(static_cast<unsigned>(rows + columns + n_hidden));
    design = random_design(random, rows, columns);
    y = random.normals(rows * n_outputs);
    alpha = random.normals(n_hidden * n_outputs);
    for (double& value : alpha) value *= scale;
    V = random.normals(n_hidden * columns);
    for (std::size_t unit = 0; unit < n_hidden; ++unit) order[unit] = n_hidden - 1 - unit;
  }

  double objective() const {
    double value = 0.0;
    Vector Z;
    for (std::size_t unit = 0; unit < n_hidden; ++unit) {
      const Vector z = product(design, rows, columns, V.data() + unit * columns);
      Z.insert(Z.end(), z.begin(), z.end());
    }
    for (std::size_t j = 0; j < rows; ++j) {
      for (std::size_t o = 0; o < n_outputs; ++o) {
        double residual = y[j * n_outputs + o];
        for (std::size_t unit = 0; unit < n_hidden; ++unit) {
          residual -= alpha[unit * n_outputs + o] * std::max(Z[unit * rows + j], 0.0);
        }
        value += residual * residual;
      }
    }
    for (double v : V) value += gamma * v * v;
    for (double a : alpha) value += gamma * a * a;
    return value;
  }

  Sweep sweep() const { return Sweep(design.data(), rows, columns, n_hidden, n_outputs); }

  std::size_t rows, columns, n_hidden, n_outputs;
  double gamma;
  std::vector<std::size_t> order;
  Vector design, y, alpha, V;
};

constexpr Limits kLimits{50, 300, 1e-10};

// Descent, and a solution to tolerance of every programme, hold for any numbers. The method of last resort, whose room
// is allocated when it is first needed, may be called only for numbers that are not of a sane size.
void test_sweep(const std::string& name, Training training, Split split, bool sane = true) {
  subject = "sweep: " + name + (split == Split::kNet ? ", net split" : ", paper's split");
  Sweep sweep = training.sweep();
  const std::function<bool()> always = [] { return true; };
  double before = training.objective();
  Tally tally;
  int allocating = 0;
  for (int epoch = 0; epoch < 5; ++epoch) {
    const std::size_t allocated = allocations;
    const std::size_t visited = sweep.run(training.y.data(), training.alpha.data(), training.gamma,
                                          training.order.data(), split, kLimits, always, training.V.data(), tally);
    allocating += allocations != allocated;
    CHECK(visited == training.n_hidden);
    const double after = training.objective();
    CHECK_AT_MOST(after, before * (1.0 + kRounding));
    before = after;
  }
  CHECK(allocating <= (sane ? 0 : 1));
  CHECK(tally.refused == 0);
  CHECK(tally.unsolved == 0);
}

void test_sweeps(Split split) {
  test_sweep("one of everything", Training(1, 1, 1, 0.1, 1.0), split);
  test_sweep("one column", Training(30, 1, 3, 0.1, 1.0), split);
  test_sweep("square", Training(9, 9, 4, 0.1, 1.0), split);
  test_sweep("small", Training(80, 6, 5, 0.01, 1.0), split);
  test_sweep("wide", Training(60, 45, 4, 0.01, 1.0), split);
  test_sweep("larger", Training(700, 11, 8, 1e-3, 0.5), split);
  test_sweep("many rows", Training(8000, 4, 4, 1e-2, 0.5), split);
  // Over the rows near their kinks; what all rows need is made the first time that they are needed.
  test_sweep("more rows", Training(20000, 7, 3, 1e-2, 0.5), split, false);
  test_sweep("more rows and columns", Training(9000, 40, 3, 1e-3, 0.5), split, false);
  for (double gamma : {1e-8, 1e-3, 1e4}) {
    for (double alpha : {1e-8, 1e-2, 1e4}) {
      test_sweep("gamma " + std::to_string(gamma) + " alpha " + std::to_string(alpha),
                 Training(50, 5, 4, gamma, alpha), split, alpha < 1e4);
    }
  }
  for (std::size_t n_outputs : {2, 3, 8}) {
    const std::string name = std::to_string(n_outputs) + " outputs, ";
    test_sweep(name + "small", Training(80, 6, 5, 0.01, 1.0, n_outputs), split);
    test_sweep(name + "wide", Training(60, 45, 4, 0.01, 1.0, n_outputs), split);
    test_sweep(name + "many rows", Training(8000, 4, 4, 1e-2, 0.5, n_outputs), split);
  }
  Training silent(40, 4, 4, 0.01, 1.0);
  silent.alpha[1] = 0.0;
  std::fill(silent.y.begin(), silent.y.end(), 0.0);
  test_sweep("no target and an idle neuron", silent, split);
}

// Enough rows for two threads to share every pass, and for near and far rows.
void test_threads_change_no_bit(Split split) {
  subject = "sweep: two threads";
  Training one(20000, 7, 3, 1e-2, 0.5), two = one;
  Tally tally;
  for (Training* training : {&one, &two}) {
    const dconnet::SharedTeam team = training == &one ? nullptr : std::make_shared<dconnet::Team>(2);
    Sweep sweep(dconnet::Design(one.design.data(), one.rows, one.columns), one.n_hidden, one.n_outputs, team);
    sweep.run(one.y.data(), one.alpha.data(), one.gamma, one.order.data(), split, kLimits, [] { return true; },
              training->V.data(), tally);
  }
  CHECK(one.V == two.V);
}

// Neurons that were not begun stay as they are, and the one that was left in the middle is no worse.
void test_sweep_stops_when_told() {
  subject = "sweep: stop";
  const Training start(40, 4, 5, 0.01, 1.0);
  std::size_t last = 0;
  for (std::size_t answers = 0; last < start.n_hidden; ++answers) {
    Training training = start;
    Sweep sweep = training.sweep();
    std::size_t asked = 0;
    Tally tally;
    const std::size_t done =
        sweep.run(training.y.data(), training.alpha.data(), training.gamma, training.order.data(), Split::kNet, kLimits,
                  [&] { return asked++ < answers; }, training.V.data(), tally);
    CHECK(asked <= answers + 1 + (done == start.n_hidden ? 0 : 1));
    CHECK(done >= last && done <= answers);
    CHECK_AT_MOST(training.objective(), start.objective() * (1.0 + kRounding));
    for (std::size_t place = done + 1; place < start.n_hidden; ++place) {
      const auto first = static_cast<std::ptrdiff_t>(start.order[place] * start.columns);
      const auto end = first + static_cast<std::ptrdiff_t>(start.columns);
      CHECK(std::equal(start.V.begin() + first, start.V.begin() + end, training.V.begin() + first));
    }
    last = done;
  }
}

}  // namespace

// With an argument, only what threads share: `make sanitize-threads`.
int main(int arguments, char**) {
  for (Split split : {Split::kPaper, Split::kNet}) test_threads_change_no_bit(split);
  if (arguments > 1) return finish_tests();
  test_sweeps(Split::kPaper);
  test_sweeps(Split::kNet);
  test_sweep_stops_when_told();
  return finish_tests();
}
