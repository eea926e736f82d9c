#include "subset.hpp"

#include <algorithm>

namespace dconnet {

Subset::Drawn::Drawn(Evaluations& whole, std::size_t rows, Random& random)
    : design(rows * whole.layout().stride), y(rows * whole.layout().n_outputs) {
  std::vector<std::size_t> chosen(rows);
  for (std::size_t i = 0; i < rows; ++i) {
    const std::size_t first = i * whole.rows() / rows, end = (i + 1) * whole.rows() / rows;
    chosen[i] = first + random.below(end - first);
  }
  whole.copy_rows(chosen.data(), rows, design.data(), y.data());
}

Subset::Subset(Evaluations& whole, std::size_t spacing, Team& team, Random& random)
    : rows_(whole.rows() / spacing),
      share_(static_cast<double>(rows_) / static_cast<double>(whole.rows())),
      drawn_(whole, rows_, random),
      design_(Design::view(drawn_.design.data(), rows_, whole.layout().columns)),
      objective_(design_, drawn_.y.data(), share_ * whole.gamma(), whole.layout().n_hidden, whole.layout().n_outputs,
                 team) {}

}  // namespace dconnet
