#include "kink_basis.hpp"

#include <algorithm>
#include <cmath>

#include "lanes.hpp"

namespace dconnet {

namespace {

// A row of which less than this fraction is new depends on the rows that are held already.
constexpr double kIndependent = 1e-9;

}  // namespace

KinkBasis::KinkBasis(const Design& design)
    : design_(design),
      basis_(design.columns() * design.stride()),
      triangle_(design.columns() * design.stride()),
      coordinates_(design.stride()),
      combination_(design.stride()),
      turns_(design.stride()) {
  rows_.reserve(design.columns());
}

void KinkBasis::clear() {
  rows_.clear();
  std::fill(basis_.begin(), basis_.end(), 0.0);
  for (std::size_t i = 0; i < design_.columns(); ++i) vector(i)[i] = 1.0;
}

bool KinkBasis::add(std::size_t row) {
  const std::size_t columns = design_.columns(), stride = design_.stride(), held = rows_.size(), free = columns - held;
  if (free == 0) return false;
  const double* q = design_.row(row);
  multiply(basis_.data(), columns, stride, q, coordinates_.data());
  const double fresh = dot(coordinates_.data(), coordinates_.data(), free);
  if (!(fresh > kIndependent * kIndependent * dot(q, q, stride))) return false;
  turn();
  std::reverse_copy(coordinates_.begin() + static_cast<std::ptrdiff_t>(free) - 1,
                    coordinates_.begin() + static_cast<std::ptrdiff_t>(columns), column(held));
  rows_.push_back(row);
  return true;
}

// Turns N, a pair of neighbours after the other, until only the last vector has a part in the new row.
void KinkBasis::turn() {
  double* h = coordinates_.data();
  for (std::size_t i = 0; i + 1 < free(); ++i) {
    const double length = length_of(h[i], h[i + 1]);
    turns_[i] = h[i] == 0.0 ? Rotation{1.0, 0.0} : Rotation{h[i + 1] / length, h[i] / length};
    if (h[i] == 0.0) continue;
    rotate(turns_[i].cosine, turns_[i].sine, design_.stride(), vector(i + 1), vector(i));
    h[i + 1] = length;
  }
}

// Without its column R is no triangle any more: rotations of neighbouring vectors of Y make it one, and set the last of
// them free.
bool KinkBasis::remove(std::size_t row) {
  const std::size_t stride = design_.stride();
  const auto found = std::find(rows_.begin(), rows_.end(), row);
  if (found == rows_.end()) return false;
  const std::size_t first = static_cast<std::size_t>(found - rows_.begin()), held = rows_.size();
  rows_.erase(found);
  if (rows_.empty()) {
    clear();
    return true;
  }
  for (std::size_t i = first; i + 1 < held; ++i) {
    std::copy(column(i + 1), column(i + 1) + stride, column(i));
    for (std::size_t l = first; l < i; ++l) {
      // the rotations of the columns before
      const double x = column(i)[l], y = column(i)[l + 1];
      const double c = combination_[l], s = coordinates_[l];
      column(i)[l] = c * x + s * y;
      column(i)[l + 1] = c * y - s * x;
    }
    const double x = column(i)[i], y = column(i)[i + 1], length = length_of(x, y);
    combination_[i] = x / length;
    coordinates_[i] = y / length;
    column(i)[i] = length;
    rotate(combination_[i], coordinates_[i], stride, pushed(i), pushed(i + 1));
  }
  return true;
}

void KinkBasis::forces(const double* b, double* x) const {
  const std::size_t held = rows_.size();
  multiply(basis_.data() + free() * design_.stride(), held, design_.stride(), b, x);
  std::reverse(x, x + held);
  for (std::size_t i = held; i-- > 0;) {
    x[i] /= column(i)[i];
    for (std::size_t l = 0; l < i; ++l) x[l] -= column(i)[l] * x[i];
  }
}

}  // namespace dconnet
