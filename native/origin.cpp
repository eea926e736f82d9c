#include "origin.hpp"

#include <algorithm>
#include <cmath>

#include "dispatch.hpp"
#include "lanes.hpp"

namespace dconnet {

namespace {

// Beyond a projection: if the multipliers have some room, the iteration then ends after finitely many rounds.
constexpr double kRelaxation = 1.5;
// What is left of Qᵀ lambda = t, as a fraction of t, that is rounding; and that in sums over many rows.
constexpr double kRounding = 1e-14, kRoundingOfManyRows = 1e-13;
// What has not come to an end by then will not: of the kernel's tests, MNIST and a million rows, the longest took 25.
constexpr std::size_t kMostRounds = 40;
// What Newton's method costs, in projections, and for each column: its matrix.
constexpr double kNewtonCost = 9.0, kNewtonCostPerColumn = 0.4;
// Keeps Newton's matrix regular where few multipliers are between their bounds; that of all rows is the identity.
constexpr double kRegularisation = 1e-9;
// A falling slope this small, as a fraction of its terms, may be rounding.
constexpr double kFlat = 1e-10;

// Moves multipliers along the direction and back into their bounds.
DCONNET_INLINE void move_within(std::size_t rows, const double* from, double step, const double* along,
                                const double* slope, double* multipliers) {
  for (std::size_t j = 0; j < rows; ++j) {
    const double moved = from[j] + step * along[j];
    const double positive = moved > 0.0 ? moved : 0.0;
    multipliers[j] = positive < slope[j] ? positive : slope[j];
  }
}

// Sums of the slopes and of the squares over the rows that a direction moves beyond their kinks.
struct Rise {
  double slope, square;
};

DCONNET_INLINE void add_rise(std::size_t rows, const double* along, const double* slope, Rise& rise) {
  double slopes[kLanes] = {}, squares[kLanes] = {};
  std::size_t j = 0;
  for (; j + kLanes <= rows; j += kLanes) {
    for (std::size_t i = 0; i < kLanes; ++i) {
      const double beyond = along[j + i] > 0.0 ? along[j + i] : 0.0;
      slopes[i] += slope[j + i] * beyond;
      squares[i] += beyond * beyond;
    }
  }
  for (; j < rows; ++j) {
    const double beyond = along[j] > 0.0 ? along[j] : 0.0;
    slopes[0] += slope[j] * beyond;
    squares[0] += beyond * beyond;
  }
  rise = {(slopes[0] + slopes[1]) + (slopes[2] + slopes[3]), (squares[0] + squares[1]) + (squares[2] + squares[3])};
}

// Replaces the defect by the change of x that makes up for it while the multipliers at their bounds stay there. `gram` is that of
// the other rows, and is overwritten.
bool solve_for_change(double* gram, std::size_t columns, std::size_t stride, double* defect) {
  for (std::size_t k = 0; k < columns; ++k) gram[k * stride + k] += kRegularisation;
  if (!cholesky(gram, columns, stride)) return false;
  cholesky_solve(gram, columns, stride, defect);
  return true;
}

// How far to go from zero along the direction to the lowest point of the programme; zero if it does not fall.
double step_down(const double* linear, double curvature, double gamma, const double* direction, std::size_t columns,
                 const Rise& rise) {
  const double gain = dot(linear, direction, columns);
  if (!(gain - rise.slope > kFlat * (std::fabs(gain) + rise.slope))) return 0.0;
  const double square = dot(direction, direction, columns);
  return (gain - rise.slope) / (2.0 * (gamma * square + curvature * rise.square));
}

}  // namespace

OriginTest::OriginTest(const Design& design, ActiveGram::Changes& changes, Scratch& scratch)
    : design_(design),
      defect_(design.stride()),
      x_(design.stride()),
      gram_(design.stride() * design.stride()),
      base_(scratch.slopes),
      changes_(changes) {}

OriginVerdict OriginTest::examine(const Programme& programme, std::size_t max_rounds, const Iterate& at,
                                std::size_t& rounds) {
  const std::size_t rows = design_.rows(), columns = design_.columns(), before = rounds;
  if (max_abs(at.multipliers, rows) == 0.0) {
    guess(programme, at.z, at.multipliers);
  } else {
    fastest<move_within>(rows, at.multipliers, 0.0, at.multipliers, programme.slope, at.multipliers);
  }
  OriginVerdict verdict = project(programme, max_rounds, at, rounds);
  if (verdict == OriginVerdict::kUnknown) {
    verdict = newton(programme, max_rounds - (rounds - before), at, rounds);
  }
  if (verdict == OriginVerdict::kDescends) return verdict;
  std::fill(at.v, at.v + columns, 0.0);
  std::fill(at.z, at.z + rows, 0.0);
  if (verdict == OriginVerdict::kUnknown) std::fill(at.multipliers, at.multipliers + rows, 0.0);
  return verdict;
}

OriginVerdict OriginTest::project(const Programme& programme, std::size_t max_rounds, const Iterate& at,
                                std::size_t& rounds) {
  const std::size_t rows = design_.rows(), columns = design_.columns();
  const double exact = kRounding * max_abs(programme.linear, columns);
  // Share of the defect that a projection may leave: with more, Newton's method is faster.
  const double good = std::pow(kRounding, 1.0 / (kNewtonCost + kNewtonCostPerColumn * static_cast<double>(columns)));
  double last = INFINITY;
  for (std::size_t round = 0; round < max_rounds; ++round) {
    const double defect = largest_defect(programme, at.multipliers);
    if (defect <= exact) return OriginVerdict::kSolution;
    if (!(defect <= good * last)) return OriginVerdict::kUnknown;
    last = defect;
    ++rounds;
    design_.apply(defect_.data(), at.z);
    // One for an orthonormal design: the step after which the defect is least.
    const double whole = dot(defect_.data(), defect_.data(), columns) / dot(at.z, at.z, rows);
    const double step = round == 0 ? whole : kRelaxation * whole;
    if (falls_along(programme, defect_.data(), at.v, at.z)) return OriginVerdict::kDescends;
    fastest<move_within>(rows, at.multipliers, step, at.z, programme.slope, at.multipliers);
  }
  return OriginVerdict::kUnknown;
}

// The nearest multipliers within their bounds are those moved along Q x and back into their bounds, for some x; Newton's
// method finds it. Without a solution x grows, and is a direction in which the programme falls.
OriginVerdict OriginTest::newton(const Programme& programme, std::size_t max_rounds, const Iterate& at,
                                std::size_t& rounds) {
  const std::size_t rows = design_.rows(), columns = design_.columns();
  const double exact = kRounding * max_abs(programme.linear, columns);
  std::copy(at.multipliers, at.multipliers + rows, base_.begin());
  std::fill(x_.begin(), x_.end(), 0.0);
  for (std::size_t round = 0; round < max_rounds; ++round) {
    if (largest_defect(programme, at.multipliers) <= exact) return OriginVerdict::kSolution;
    ++rounds;
    if (!newton_step(programme, at.multipliers)) return OriginVerdict::kUnknown;
    for (std::size_t k = 0; k < columns; ++k) x_[k] += defect_[k];
    design_.apply(x_.data(), at.z);
    fastest<move_within>(rows, base_.data(), 1.0, at.z, programme.slope, at.multipliers);
    if (falls_along(programme, x_.data(), at.v, at.z)) return OriginVerdict::kDescends;
  }
  return OriginVerdict::kUnknown;
}

bool OriginTest::newton_step(const Programme& programme, const double* multipliers) {
  const std::size_t rows = design_.rows(), columns = design_.columns(), stride = design_.stride();
  std::size_t between = 0;
  for (std::size_t j = 0; j < rows; ++j) {
    changes_.rows[between] = static_cast<Row>(j);
    changes_.weights[between] = 1.0;
    between += multipliers[j] > 0.0 && multipliers[j] < programme.slope[j];
  }
  std::fill(gram_.begin(), gram_.end(), 0.0);
  design_.add_gram(changes_.rows.data(), changes_.weights.data(), between, gram_.data());
  return solve_for_change(gram_.data(), columns, stride, defect_.data());
}

double OriginTest::largest_defect(const Programme& programme, const double* multipliers) {
  design_.apply_transposed(multipliers, defect_.data());
  for (std::size_t k = 0; k < design_.columns(); ++k) defect_[k] = programme.linear[k] - defect_[k];
  return max_abs(defect_.data(), design_.columns());
}

// Whether the programme falls from zero along a direction with z = Q direction; if so, v and z become the lowest
// point there.
bool OriginTest::falls_along(const Programme& programme, const double* direction, double* v, double* z) const {
  const std::size_t rows = design_.rows(), columns = design_.columns();
  Rise rise;
  fastest<add_rise>(rows, z, programme.slope, rise);
  const double step = step_down(programme.linear, programme.curvature, programme.gamma, direction, columns, rise);
  if (step == 0.0) return false;
  for (std::size_t k = 0; k < columns; ++k) v[k] = step * direction[k];
  for (std::size_t j = 0; j < rows; ++j) z[j] *= step;
  return true;
}

// The middle of the bounds, but no more than the linear term calls for: some slopes may be far larger.
void OriginTest::guess(const Programme& programme, double* buffer, double* multipliers) const {
  design_.apply(programme.linear, buffer);
  const double called_for = max_abs(buffer, design_.rows());
  for (std::size_t j = 0; j < design_.rows(); ++j) multipliers[j] = std::min(0.5 * programme.slope[j], called_for);
}

OriginTestByPasses::OriginTestByPasses(NeuronRows& passes)
    : passes_(passes), x_(passes.stride()), defect_(passes.stride()), sums_(passes.stride() * (passes.stride() + 1) + 2) {}

OriginVerdict OriginTestByPasses::examine(const double* linear, double curvature, double gamma, double* v,
                                          std::size_t& rounds) {
  const std::size_t columns = passes_.columns();
  const double exact = kRoundingOfManyRows * max_abs(linear, columns);
  std::fill(x_.begin(), x_.end(), 0.0);
  for (std::size_t round = 0; round < kMostRounds; ++round) {
    ++rounds;
    passes_.zero_sums(x_.data(), sums_);
    for (std::size_t k = 0; k < columns; ++k) defect_[k] = linear[k] - pull()[k];
    if (max_abs(defect_.data(), columns) <= exact) return OriginVerdict::kSolution;
    const double step = step_down(linear, curvature, gamma, x_.data(), columns, {rise()[0], rise()[1]});
    if (step != 0.0) {
      for (std::size_t k = 0; k < columns; ++k) v[k] = step * x_[k];
      return OriginVerdict::kDescends;
    }
    if (!solve_for_change(sums_.data(), columns, passes_.stride(), defect_.data())) return OriginVerdict::kUnknown;
    for (std::size_t k = 0; k < columns; ++k) x_[k] += defect_[k];
  }
  return OriginVerdict::kUnknown;
}

}  // namespace dconnet
