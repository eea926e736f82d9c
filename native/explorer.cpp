#include "explorer.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace dconnet {

namespace {

// Pairs that L-BFGS keeps. More of them gain a little in each iteration, and cost nothing next to an evaluation over many
// rows.
constexpr std::size_t kMemory = 20, kLongMemory = 80;
constexpr std::size_t kManyRows = 10000;
// Iterations of the first heat of the race; each further one has twice as many, for half of the starts.
constexpr std::size_t kHeat = 20;
constexpr std::size_t kBurst = 50;
// The smallest sample is one row in 16, if those are enough for the unknowns and may be copied, and the largest one row in four.
constexpr std::size_t kMostSpacing = 16, kLeastSpacing = 4;
constexpr std::size_t kNumbersPerUnknown = 6;
constexpr std::size_t kSampleBurst = 25;
// A burst on a sample that gains less than this share has stalled: the next sample has more rows.
constexpr double kStalledSample = 1e-2;
// Of two samples the first has a third of the evaluations.
constexpr double kFirstShare = 1.0 / 3.0;
// After a failed hop, a burst that gained more than this share of F last time is tried again at once.
constexpr double kSlow = 1e-3;
// Once all hops are tried, bursts continue until they gain nothing but rounding.
constexpr double kExhausted = 1e-12;
// One in 8 failed hops is followed by a burst from where they began, which may still descend slowly.
constexpr std::size_t kHopsPerBurst = 8;
constexpr std::size_t kHopBurst = 25;
// A hop is given up when it is above its origin by more than 12 times the gain of its last burst.
constexpr double kHope = 12.0;
constexpr double kHopSize = 0.3;
constexpr double kHopSpread = 0.7;
// A hop or a new neuron counts if F ends lower by this share; so there can be only finitely many.
constexpr double kLeap = 1e-6;
// A descent that is below its origin already continues while a burst gains this share.
constexpr double kWorthwhile = 1e-3;
constexpr std::size_t kMostHopBursts = 400;
// A neuron whose output is no longer than this share of the targets carries nothing.
constexpr double kNothing = 1e-9;

std::size_t memory_for(const Evaluations& objective) {
  return objective.rows() < kManyRows ? kMemory : kLongMemory;
}

bool is_well_below(double value, double before) { return value < before && value <= before * (1.0 - kLeap); }

}  // namespace

Explorer::Explorer(Design design, const double* y, double gamma, std::size_t n_hidden, std::size_t n_outputs, Plan plan,
                   std::uint64_t seed, SharedTeam team)
    : Explorer(std::make_unique<OwnObjective>(std::move(design), y, gamma, n_hidden, n_outputs, team), plan, seed,
               team) {}

Explorer::Explorer(std::unique_ptr<Evaluations> evaluations, Plan plan, std::uint64_t seed, SharedTeam team)
    : team_(or_alone(std::move(team))),
      evaluations_(std::move(evaluations)),
      objective_(*evaluations_),
      plan_(plan),
      main_(objective_, memory_for(objective_)),
      trial_(objective_, memory_for(objective_)),
      newcomer_(objective_),
      random_(seed),
      theta_(layout().size()),
      candidate_(layout().size()),
      costs_(layout().n_hidden),
      survivors_(plan.starts * layout().size()),
      survivor_values_(plan.starts),
      ranking_(std::max(plan.starts, layout().n_hidden)),
      target_length_(std::sqrt(objective_.target_square())) {}

Exploration Explorer::explore(std::size_t evaluations, const Proceed& proceed, double* V, double* alpha) {
  const Layout& layout = objective_.layout();
  const double begin = work(), end = begin + static_cast<double>(evaluations);
  Exploration done;
  layout.pack(V, alpha, theta_.data());
  main_.start(theta_.data());
  value_ = main_.value();
  if (!raced_) {
    race(proceed);
    if (plan_.samples > 0) begin_on_samples(proceed);
  }
  raced_ = true;
  if (plan_.revive) revive(done);
  bool burst_due = plan_.burst;
  while (work() < end && proceed()) {
    if (burst_due) {
      const double before = value_;
      // Where hops follow, the gain of a whole burst decides whether it is time for one.
      const std::size_t left = static_cast<std::size_t>(std::ceil(end - work()));
      const bool more = burst(plan_.hop == Hop::kNone ? std::min(kBurst, left) : kBurst, proceed);
      last_gain_ = (before - value_) / value_;
      if (more && last_gain_ > (settled() ? kExhausted : plan_.stalled)) continue;
      burst_due = false;
    }
    if (settled() || !proceed()) break;
    ++done.hops;
    const bool lower = hop(proceed);
    done.accepted += lower;
    failures_ = lower ? 0 : failures_ + 1;
    burst_due = plan_.burst && (lower || last_gain_ > kSlow || hops_ % kHopsPerBurst == 0);
  }
  layout.unpack(theta_.data(), V, alpha);
  done.evaluations = static_cast<std::size_t>(std::ceil(work() - begin));
  return done;
}

// L-BFGS begins without memory in every call, and the gain of the last burst is known before it is asked for.
std::vector<std::uint64_t> Explorer::state() const {
  std::vector<std::uint64_t> state{raced_ ? 1u : 0u, hops_, failures_};
  random_.save(state);
  return state;
}

bool Explorer::restore(const std::vector<std::uint64_t>& state) {
  if (state.size() != 3 + Random::kStateSize || !random_.restore(state.data() + 3)) return false;
  raced_ = state[0] != 0;
  hops_ = static_cast<std::size_t>(state[1]);
  failures_ = static_cast<std::size_t>(state[2]);
  return true;
}

void Explorer::take(const Lbfgs& from) {
  std::copy(from.theta(), from.theta() + theta_.size(), theta_.begin());
  value_ = from.value();
}

// The given start and random ones, all scaled: some iterations on each, and the better half continues with twice as many.
void Explorer::race(const Proceed& proceed) {
  const std::size_t size = theta_.size();
  const auto survivor = [&](std::size_t i) { return survivors_.data() + i * size; };
  for (std::size_t i = 0; i < plan_.starts; ++i) {
    if (i == 0) candidate_ = theta_;
    else random_start();
    scale_start();
    std::copy(candidate_.begin(), candidate_.end(), survivor(i));
    ranking_[i] = i;
  }
  if (plan_.starts == 1 && objective_.value(candidate_.data()) < value_) theta_ = candidate_;
  std::size_t left = plan_.starts;
  for (std::size_t iterations = kHeat; left > 1 && proceed(); iterations *= 2, left = (left + 1) / 2) {
    for (std::size_t place = 0; place < left; ++place) {
      const std::size_t i = ranking_[place];
      trial_.start(survivor(i));
      trial_.run(iterations, proceed);
      std::copy(trial_.theta(), trial_.theta() + size, survivor(i));
      survivor_values_[i] = trial_.value();
      if (trial_.value() < value_) take(trial_);
    }
    std::sort(ranking_.begin(), ranking_.begin() + static_cast<std::ptrdiff_t>(left),
              [&](std::size_t a, std::size_t b) { return survivor_values_[a] < survivor_values_[b]; });
  }
  main_.start(theta_.data());
  value_ = main_.value();
}

// The first steps go far, and need not be exact: a few rows show the way, and then more of them.
void Explorer::begin_on_samples(const Proceed& proceed) {
  const Layout& layout = objective_.layout();
  const std::size_t unknowns = layout.n_hidden * (layout.columns + layout.n_outputs);
  const std::size_t least = std::max(kLeastSpacing, 1 + (objective_.rows() - 1) / objective_.most_copied());
  std::size_t spacing = std::min(std::max(kMostSpacing, least),
                                 objective_.rows() * layout.n_outputs / (kNumbersPerUnknown * unknowns));
  const double end = work() + static_cast<double>(plan_.samples);
  for (bool lower = true; lower && spacing >= least && work() < end && proceed(); spacing /= 4) {
    const bool is_last = spacing / 4 < least;
    lower = descend_on_sample(spacing, is_last ? end : work() + kFirstShare * (end - work()), proceed);
  }
  if (main_.value() != value_) main_.start(theta_.data());
}

// Bursts on a sample until the work is done or one gains little. Whether F over all rows is lower, too, is checked after
// the first burst, because a sample may be misleading at the start, and after the last.
//
// A sample has one of every `spacing` rows or a few more, at random: rows come sorted, so that all regions keep their shares. F over
// these rows, with a penalty of share gamma, is about share F, and its minimum is near that of F while there are many rows for
// the unknowns.
bool Explorer::descend_on_sample(std::size_t spacing, double end, const Proceed& proceed) {
  const Layout& layout = objective_.layout();
  const std::size_t rows = objective_.rows() / spacing;
  const double share = static_cast<double>(rows) / static_cast<double>(objective_.rows());
  std::vector<std::size_t> chosen(rows);
  for (std::size_t i = 0; i < rows; ++i) {
    const std::size_t first = i * objective_.rows() / rows, stop = (i + 1) * objective_.rows() / rows;
    chosen[i] = first + random_.below(stop - first);
  }
  Design design = Design::with_capacity(rows, layout.columns);
  std::vector<double> y(rows * layout.n_outputs);
  objective_.copy_rows(chosen.data(), rows, design.extend(0, rows), y.data());
  OwnObjective sample(std::move(design), y.data(), share * objective_.gamma(), layout.n_hidden, layout.n_outputs, team_);
  Lbfgs search(sample, memory_for(sample));
  search.start(theta_.data());
  const double begin = sample_work_;
  bool more = true, lower = true;
  std::size_t bursts = 0;
  while (more && lower && work() < end && proceed()) {
    const double before = search.value();
    const double left = std::ceil((end - work()) / share);
    more = search.run(std::min(kSampleBurst, static_cast<std::size_t>(left)), proceed);
    more = more && before - search.value() > kStalledSample * before;
    sample_work_ = begin + share * static_cast<double>(search.evaluations());
    if (++bursts == 1) lower = take_if_lower(search);
  }
  return lower && (bursts < 2 || take_if_lower(search));
}

// Takes what was found on a sample if F over all rows is lower there.
bool Explorer::take_if_lower(const Lbfgs& search) {
  main_.start(search.theta());
  if (!(main_.value() < value_)) return false;
  take(main_);
  return true;
}

void Explorer::random_start() {
  const Layout& layout = objective_.layout();
  for (std::size_t unit = 0; unit < layout.n_hidden; ++unit) {
    for (std::size_t k = 0; k < layout.columns; ++k) candidate_[k * layout.width + unit] = random_.normal();
    for (std::size_t o = 0; o < layout.n_outputs; ++o) {
      layout.alpha(candidate_.data())[o * layout.width + unit] = random_.normal();
    }
  }
}

// Balances the candidate and scales its outputs to the targets, with the sign that fits them better.
void Explorer::scale_start() {
  const Layout& layout = objective_.layout();
  layout.balance(candidate_.data());
  const auto [product, output_square] = objective_.agreement(candidate_.data());
  if (!(output_square > 0.0)) return;
  const double sign = product < 0.0 ? -1.0 : 1.0;
  const double factor = std::max(std::fabs(product) / output_square, 1e-3 * target_length_ / std::sqrt(output_square));
  const double root = std::sqrt(factor);
  if (!std::isnormal(root)) return;
  for (std::size_t unit = 0; unit < layout.n_hidden; ++unit) layout.scale(candidate_.data(), unit, root, sign * root);
}

// Replaces each neuron that carries nothing by the most useful new one, if one is found that lowers F.
void Explorer::revive(Exploration& done) {
  const Layout& layout = objective_.layout();
  for (std::size_t unit = 0; unit < layout.n_hidden; ++unit) {
    if (!carries_nothing(unit)) continue;
    if (done.barren == 0) {  // none was found for this residual before
      candidate_ = theta_;
      layout.scale(candidate_.data(), unit, 0.0, 0.0);
      if (newcomer_.seek(candidate_.data(), random_)) {
        layout.place(candidate_.data(), unit, newcomer_.direction(), newcomer_.output(), newcomer_.weight());
        trial_.start(candidate_.data());
        if (is_well_below(trial_.value(), value_)) {
          take(trial_);
          main_.start(theta_.data());
          ++done.revived;
          failures_ = 0;
          continue;
        }
      }
    }
    ++done.barren;
  }
}

// |alpha_l| |v_l| bounds the length of the neuron's outputs, because Q makes no v longer.
bool Explorer::carries_nothing(std::size_t unit) const {
  const Layout& layout = objective_.layout();
  const double strength = layout.norm(theta_.data(), unit) * layout.output_norm(theta_.data(), unit);
  return strength <= kNothing * target_length_;
}

// True if F may still fall.
bool Explorer::burst(std::size_t iterations, const Proceed& proceed) {
  const bool more = main_.run(iterations, proceed);
  double moved = 0.0;
  for (std::size_t i = 0; i < theta_.size(); ++i) {
    moved += (main_.theta()[i] - theta_[i]) * (main_.theta()[i] - theta_[i]);
  }
  if (value_ - main_.value() >= kSufficientDecrease * objective_.gamma() * moved) {
    take(main_);
    return more;
  }
  main_.start(theta_.data());
  return false;
}

// Out of the minimum and down again; true if it ended lower.
bool Explorer::hop(const Proceed& proceed) {
  const std::size_t turn = hops_++;
  if (plan_.hop == Hop::kRestart) {
    random_start();
    scale_start();
  } else if (turn % kHopsPerBurst == kHopsPerBurst - 1) {
    replace_weakest();
  } else {
    const double size = kHopSize * std::exp(kHopSpread * random_.normal());
    if (turn % 2 == 0) perturb(size, 1.0);
    else perturb(2.0 * size, 0.1 + 0.4 * random_.uniform());
    objective_.solve_output_weights(candidate_.data());
    objective_.layout().balance(candidate_.data());
  }
  if (!descend_from_candidate(proceed)) return false;
  take(trial_);
  main_.start(theta_.data());
  return true;
}

// Moves a random share of the neurons by about this much of their length.
void Explorer::perturb(double size, double share) {
  const Layout& layout = objective_.layout();
  candidate_ = theta_;
  for (std::size_t unit = 0; unit < layout.n_hidden; ++unit) {
    if (share < 1.0 && random_.uniform() > share) continue;
    const double scale = size * layout.norm(theta_.data(), unit) / std::sqrt(static_cast<double>(layout.columns));
    for (std::size_t k = 0; k < layout.columns; ++k) candidate_[k * layout.width + unit] += scale * random_.normal();
  }
}

// The neuron that is missed least, or one of the next, gives way to the most useful new one.
void Explorer::replace_weakest() {
  const Layout& layout = objective_.layout();
  candidate_ = theta_;
  objective_.removal_costs(theta_.data(), costs_.data());
  std::iota(ranking_.begin(), ranking_.end(), std::size_t{0});
  std::sort(ranking_.begin(), ranking_.begin() + static_cast<std::ptrdiff_t>(layout.n_hidden),
            [&](std::size_t a, std::size_t b) { return costs_[a] < costs_[b]; });
  std::size_t place = 0;
  while (place + 1 < layout.n_hidden && random_.uniform() < 0.5) ++place;
  const std::size_t unit = ranking_[place];
  layout.scale(candidate_.data(), unit, 0.0, 0.0);
  objective_.solve_output_weights(candidate_.data());
  layout.balance(candidate_.data());
  if (newcomer_.seek(candidate_.data(), random_)) {
    layout.place(candidate_.data(), unit, newcomer_.direction(), newcomer_.output(), newcomer_.weight());
  }
}

bool Explorer::descend_from_candidate(const Proceed& proceed) {
  trial_.start(candidate_.data());
  for (std::size_t bursts = 0; bursts < kMostHopBursts; ++bursts) {
    const double before = trial_.value();
    const bool more = trial_.run(kHopBurst, proceed);
    const double gained = before - trial_.value();
    const double above = trial_.value() - value_;
    if (!more || !proceed()) break;
    if (plan_.hop == Hop::kRestart) {
      if (gained < plan_.stalled * trial_.value()) break;
    } else if (above < 0.0 ? gained < kWorthwhile * trial_.value() : above > kHope * gained) {
      break;
    }
  }
  return is_well_below(trial_.value(), value_);
}

}  // namespace dconnet
