#include "subset.hpp"

#include <algorithm>

namespace dconnet {

Subset::Subset(const Objective& whole, std::size_t spacing, Team& team, Random& random)
    : rows_(whole.design().rows() / spacing),
      share_(static_cast<double>(rows_) / static_cast<double>(whole.design().rows())),
      values_(rows_ * whole.design().stride()),
      y_(rows_ * whole.layout().n_outputs),
      design_(Design::view(values_.data(), rows_, whole.design().columns())),
      objective_(design_, y_.data(), share_ * whole.gamma(), whole.layout().n_hidden, whole.layout().n_outputs, team) {
  const std::size_t all = whole.design().rows(), stride = whole.design().stride(), n_outputs = whole.layout().n_outputs;
  for (std::size_t i = 0; i < rows_; ++i) {
    const std::size_t first = i * all / rows_, end = (i + 1) * all / rows_;
    const std::size_t j = first + random.below(end - first);
    std::copy_n(whole.design().row(j), stride, values_.data() + i * stride);
    std::copy_n(whole.targets() + j * n_outputs, n_outputs, y_.data() + i * n_outputs);
  }
}

}  // namespace dconnet
