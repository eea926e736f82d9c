#include "active_gram.hpp"

#include <algorithm>

namespace dconnet {

std::size_t ActiveGram::match(const Design& design, const unsigned char* wanted, Room& room) {
  std::size_t count = 0, active = 0;
  for (std::size_t j = 0; j < design.rows(); ++j) {
    const bool is = wanted[j] != 0, was = member_[j] != 0;
    room.rows[count] = j;
    room.weights[count] = is ? 1.0 : -1.0;
    count += is != was;
    active += is;
    member_[j] = is;
  }
  changes_ += count;
  // A full product also sweeps out the rounding of many changes.
  if (2 * count >= active || changes_ > 4 * design.rows()) {
    recompute(design, room);
    return kRecomputed;
  }
  design.add_gram(room.rows.data(), room.weights.data(), count, values_.data());
  return count;
}

void ActiveGram::recompute(const Design& design, Room& room) {
  std::size_t count = 0;
  for (std::size_t j = 0; j < design.rows(); ++j) {
    room.rows[count] = j;
    room.weights[count] = 1.0;
    count += member_[j] != 0;
  }
  std::fill(values_.begin(), values_.end(), 0.0);
  design.add_gram(room.rows.data(), room.weights.data(), count, values_.data());
  changes_ = 0;
}

}  // namespace dconnet
