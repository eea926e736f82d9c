// Numbers for each row that a method needs while it runs, and no longer: methods that take turns share them.
#pragma once

#include <cstddef>
#include <vector>

namespace dconnet {

struct Scratch {
  explicit Scratch(std::size_t rows) : z(rows + 1), along(rows + 1), slopes(rows + 1) {}

  std::vector<double> z, along, slopes;  // one more than rows: lists may be written one ahead
};

}  // namespace dconnet
