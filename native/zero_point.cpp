#include "zero_point.hpp"

#include <algorithm>
#include <cmath>

#include "dense.hpp"

namespace dconnet {

namespace {

// What has not come to an end by then will not: of the kernel's tests, MNIST and a million rows, the longest took 25.
constexpr std::size_t kMostRounds = 40;
// What is left of Qᵀ lambda = t, as a fraction of t, that is rounding in sums over many rows.
constexpr double kRounding = 1e-13;
// Keeps Newton's matrix regular where few multipliers are between their bounds; that of all rows is the identity.
constexpr double kRegularisation = 1e-9;
// A falling slope this small, as a fraction of its terms, may be rounding.
constexpr double kFlat = 1e-10;

}  // namespace

ZeroPoint::ZeroPoint(LeafPasses& passes)
    : passes_(passes), x_(passes.stride()), defect_(passes.stride()), sums_(passes.zero_size()) {}

ZeroPoint::Verdict ZeroPoint::examine(const double* linear, double curvature, double gamma, double* v,
                                      std::size_t& rounds) {
  const double exact = kRounding * max_abs(linear, passes_.columns());
  std::fill(x_.begin(), x_.end(), 0.0);
  for (std::size_t round = 0; round < kMostRounds; ++round) {
    ++rounds;
    add_up();
    if (largest_defect(linear) <= exact) return Verdict::kSolution;
    if (falls(linear, curvature, gamma, v)) return Verdict::kDescends;
    if (!newton_step()) return Verdict::kUnknown;
  }
  return Verdict::kUnknown;
}

void ZeroPoint::add_up() {
  std::fill(sums_.begin(), sums_.end(), 0.0);
  const std::size_t at_once = LeafPasses::leaves_at_once(sums_.size());
  for (std::size_t first = 0; first < passes_.leaves(); first += at_once) {
    const std::size_t last = std::min(first + at_once, passes_.leaves());
    parts_.resize((last - first) * sums_.size());
    passes_.zero_sums(x_.data(), first, last, parts_.data());
    for (std::size_t i = 0; i < last - first; ++i) {
      for (std::size_t k = 0; k < sums_.size(); ++k) sums_[k] += parts_[i * sums_.size() + k];
    }
  }
}

// Of t - Qᵀ lambda, which is left in defect_.
double ZeroPoint::largest_defect(const double* linear) {
  for (std::size_t k = 0; k < passes_.columns(); ++k) defect_[k] = linear[k] - pull()[k];
  return max_abs(defect_.data(), passes_.columns());
}

bool ZeroPoint::falls(const double* linear, double curvature, double gamma, double* v) const {
  const std::size_t columns = passes_.columns();
  const double gain = dot(linear, x_.data(), columns), slope = rise()[0], square = rise()[1];
  if (!(gain - slope > kFlat * (std::fabs(gain) + slope))) return false;
  const double step = (gain - slope) / (2.0 * (gamma * dot(x_.data(), x_.data(), columns) + curvature * square));
  for (std::size_t k = 0; k < columns; ++k) v[k] = step * x_[k];
  return true;
}

// Moves x so that it makes up for the defect while the multipliers at their bounds stay there.
bool ZeroPoint::newton_step() {
  const std::size_t columns = passes_.columns(), stride = passes_.stride();
  double* gram = sums_.data();
  for (std::size_t k = 0; k < columns; ++k) gram[k * stride + k] += kRegularisation;
  if (!cholesky(gram, columns, stride)) return false;
  cholesky_solve(gram, columns, stride, defect_.data());
  for (std::size_t k = 0; k < columns; ++k) x_[k] += defect_[k];
  return true;
}

}  // namespace dconnet
