// The search for a low minimum of F: a race of starts, or samples of the rows to begin with, bursts of L-BFGS, and hops
// out of the minimum reached.
//
// F never rises: a burst counts only if F falls by a share of the squared distance, a hop only if it ends a fixed share
// below where it began, a new neuron and what was found on a sample only if it lowers F over all rows. What to do next
// depends on counts of evaluations, never on the clock, so that the same seed leads to the same network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "lbfgs.hpp"
#include "newcomer.hpp"
#include "objective.hpp"
#include "random.hpp"

namespace dconnet {

// A step counts if F falls by at least this share of gamma |step|²: the sufficient decrease of the convergence proof.
inline constexpr double kSufficientDecrease = 1e-6;

enum class Hop { kNone, kPerturb, kRestart };

struct Plan {
  std::size_t starts;    // in the race: the given one and random ones
  std::size_t samples;   // evaluations on samples of the rows to begin with
  bool burst;
  Hop hop;
  double stalled;        // a burst that gains less than this share of F has stalled: time to hop
  std::size_t patience;  // failed hops in a row after which no more are tried
  bool revive;
};

// What one call of `explore` did.
struct Exploration {
  std::size_t evaluations = 0;  // one on a sample counts by its share of the rows
  std::size_t hops = 0;      // tried
  std::size_t accepted = 0;  // hops that ended lower
  std::size_t revived = 0;   // neurons that carried nothing and were replaced
  std::size_t barren = 0;    // neurons that carry nothing, and for which no useful one was found
};

class Explorer {
 public:
  using Proceed = std::function<bool()>;

  // y has the shape (rows, n_outputs).
  Explorer(Design design, const double* y, double gamma, std::size_t n_hidden, std::size_t n_outputs, Plan plan,
           std::uint64_t seed, SharedTeam team = nullptr);
  // Over rows that may be in other processes; the team is for samples, which are in this one.
  Explorer(std::unique_ptr<Evaluations> evaluations, Plan plan, std::uint64_t seed, SharedTeam team = nullptr);

  const Layout& layout() const { return objective_.layout(); }
  Evaluations& evaluations() { return objective_; }

  // Goes on from V (n_hidden, columns) and alpha (n_hidden, n_outputs), and replaces them by where it ends, for about
  // this many evaluations; fewer if nothing is left to try, or `proceed` says no.
  Exploration explore(std::size_t evaluations, const Proceed& proceed, double* V, double* alpha);
  // Whether no more hops are tried, because too many have failed in a row.
  bool settled() const { return plan_.hop == Hop::kNone || failures_ >= plan_.patience; }

  // All that a call of `explore` leaves to the next, for an explorer of the same plan.
  std::vector<std::uint64_t> state() const;
  // False, and nothing is changed, if this is not the state of an explorer.
  bool restore(const std::vector<std::uint64_t>& state);

 private:
  void race(const Proceed& proceed);
  void random_start();
  void scale_start();
  void begin_on_samples(const Proceed& proceed);
  bool descend_on_sample(std::size_t spacing, double end, const Proceed& proceed);
  bool take_if_lower(const Lbfgs& search);
  void revive(Exploration& done);
  bool carries_nothing(std::size_t unit) const;
  bool burst(std::size_t iterations, const Proceed& proceed);
  bool hop(const Proceed& proceed);
  void perturb(double size, double share);
  void replace_weakest();
  bool descend_from_candidate(const Proceed& proceed);
  void take(const Lbfgs& from);
  // Evaluations since the object was made.
  double work() const { return static_cast<double>(main_.evaluations() + trial_.evaluations()) + sample_work_; }

  SharedTeam team_;
  std::unique_ptr<Evaluations> evaluations_;
  Evaluations& objective_;
  Plan plan_;
  Lbfgs main_, trial_;
  Newcomer newcomer_;
  Random random_;
  bool raced_ = false;
  std::size_t hops_ = 0, failures_ = 0;
  double value_ = 0.0, last_gain_ = 0.0, sample_work_ = 0.0;
  std::vector<double> theta_, candidate_, costs_, survivors_, survivor_values_;
  std::vector<std::size_t> ranking_;
  double target_length_;
};

}  // namespace dconnet
