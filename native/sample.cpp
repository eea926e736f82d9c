#include "sample.hpp"

#include <algorithm>

namespace dconnet {

namespace {

// One row in so many, if those are enough for the columns: with more, the sample takes nearly as long as all rows.
constexpr std::size_t kWidestSpacing = 32, kLeastSpacing = 4;
constexpr std::size_t kRowsPerColumn = 50;
// Far more than any programme needs.
constexpr std::size_t kIterations = 1000;
constexpr double kGap = 1e-10;

Design spread_out(const Design& design, std::size_t spacing) {
  const std::size_t rows = design.rows() / spacing;
  std::vector<double> values(rows * design.columns());
  for (std::size_t i = 0; i < rows; ++i) {
    std::copy_n(design.row(i * spacing), design.columns(), values.data() + i * design.columns());
  }
  return Design(values.data(), rows, design.columns());
}

}  // namespace

std::unique_ptr<Sample> Sample::of(const Design& design) {
  const std::size_t spacing = std::min(kWidestSpacing, design.rows() / (kRowsPerColumn * design.columns()));
  return spacing < kLeastSpacing ? nullptr : std::unique_ptr<Sample>(new Sample(design, spacing));
}

Sample::Sample(const Design& design, std::size_t spacing)
    : spacing_(spacing),
      share_(static_cast<double>(design.rows() / spacing) / static_cast<double>(design.rows())),
      solver_(spread_out(design, spacing), false),
      gram_(solver_.design()),
      v_(design.stride()),
      linear_(design.stride()),
      slope_(solver_.design().rows()),
      z_(slope_.size()),
      multipliers_(slope_.size()) {}

bool Sample::solve(const Programme& programme, const double* pull, const double* v, const double* z) {
  const Design& design = solver_.design();
  for (std::size_t i = 0; i < design.rows(); ++i) {
    const std::size_t row = i * spacing_;
    slope_[i] = programme.slope[row];
    z_[i] = z[row];
    multipliers_[i] = z[row] > 0.0 ? slope_[i] + 2.0 * programme.curvature * z[row] : 0.0;
  }
  design.apply_transposed(multipliers_.data(), linear_.data());
  for (std::size_t k = 0; k < design.columns(); ++k) linear_[k] += share_ * (programme.linear[k] - pull[k]);
  std::copy(v, v + design.columns(), v_.begin());
  const Programme sampled{design, linear_.data(), slope_.data(), programme.curvature, share_ * programme.gamma};
  return solver_.solve(sampled, kGap, kIterations, false, v_.data(), z_.data(), multipliers_.data(), gram_).converged;
}

}  // namespace dconnet
