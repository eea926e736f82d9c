#include "sample.hpp"

#include <algorithm>
#include <utility>

namespace dconnet {

namespace {

// One row in 4 to 32 is enough, if there are this many for each column: with more, the sample takes nearly as long as all rows.
constexpr std::size_t kWidestSpacing = 32, kLeastSpacing = 4;
constexpr std::size_t kRowsPerColumn = 50;
// With fewer rows it costs more to find out whether a start is far than a better one is worth.
constexpr std::size_t kLeastRows = 2 * kLeaf;
// Far more than any programme needs.
constexpr std::size_t kIterations = 1000;
constexpr double kGap = 1e-10;

Design spread_out(const Design& design, std::size_t spacing) {
  const std::size_t rows = (design.rows() + spacing - 1) / spacing;
  Design sample = Design::with_capacity(rows, design.columns());
  double* to = sample.extend(0, rows);
  for (std::size_t i = 0; i < rows; ++i) std::copy_n(design.row(i * spacing), design.stride(), to + i * design.stride());
  return sample;
}

}  // namespace

std::size_t Sample::spacing_for(std::size_t rows, std::size_t columns) {
  if (rows < kLeastRows) return 0;
  std::size_t spacing = kWidestSpacing;
  while (spacing > 1 && rows / spacing < kRowsPerColumn * columns) spacing /= 2;
  return spacing < kLeastSpacing ? 0 : spacing;
}

std::unique_ptr<Sample> Sample::of(const Design& design, Team* team) {
  const std::size_t spacing = spacing_for(design.rows(), design.columns());
  return spacing == 0 ? nullptr : std::make_unique<Sample>(spread_out(design, spacing), spacing, design.rows(), team);
}

Sample::Sample(Design sample, std::size_t spacing, std::size_t rows, Team* team)
    : spacing_(spacing),
      share_(static_cast<double>(sample.rows()) / static_cast<double>(rows)),
      solver_(std::move(sample), false, team),
      gram_(solver_.design()),
      v_(solver_.design().stride()),
      linear_(solver_.design().stride()),
      slope_(solver_.design().rows()),
      z_(slope_.size()),
      multipliers_(slope_.size()) {}

bool Sample::solve(const Programme& programme, const double* pull, const double* v) {
  const Design& design = solver_.design();
  for (std::size_t i = 0; i < slope_.size(); ++i) slope_[i] = programme.slope[i * spacing_];
  std::copy(v, v + design.columns(), v_.begin());
  design.apply(v_.data(), z_.data());
  for (std::size_t i = 0; i < design.rows(); ++i) {
    multipliers_[i] = z_[i] > 0.0 ? slope_[i] + 2.0 * programme.curvature * z_[i] : 0.0;
  }
  design.apply_transposed(multipliers_.data(), linear_.data());
  for (std::size_t k = 0; k < design.columns(); ++k) linear_[k] += share_ * (programme.linear[k] - pull[k]);
  const Programme sampled{design, linear_.data(), slope_.data(), programme.curvature, share_ * programme.gamma};
  return solver_.solve(sampled, kGap, kIterations, false, {v_.data(), z_.data(), multipliers_.data()}, gram_).converged;
}

}  // namespace dconnet
