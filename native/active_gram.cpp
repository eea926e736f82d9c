#include "active_gram.hpp"

#include <algorithm>

namespace dconnet {

void ActiveGram::clear(const double* base) {
  base_ = base;
  std::fill(member_.begin(), member_.end(), static_cast<unsigned char>(0));
  start_values();
  active_ = changes_ = 0;
}

void ActiveGram::base_changed(const double* before) {
  for (std::size_t i = 0; i < values_.size(); ++i) values_[i] += base_[i] - before[i];
}

void ActiveGram::start_values() {
  if (base_ == nullptr) {
    std::fill(values_.begin(), values_.end(), 0.0);
  } else {
    std::copy_n(base_, values_.size(), values_.begin());
  }
}

void ActiveGram::match(const Design& design, const unsigned char* wanted, Changes& changes) {
  std::size_t count = 0;
  for (std::size_t j = 0; j < design.rows(); ++j) {
    const bool is = wanted[j] != 0, was = member_[j] != 0;
    changes.rows[count] = static_cast<Row>(j);
    changes.weights[count] = is ? 1.0 : -1.0;
    count += is != was;
  }
  change(design, changes, count);
}

void ActiveGram::change(const Design& design, Changes& changes, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const bool comes = changes.weights[i] > 0.0;
    member_[changes.rows[i]] = comes;
    comes ? ++active_ : --active_;
  }
  changes_ += count;
  // A full product also sweeps out the rounding of many changes.
  if (2 * count >= active_ || changes_ > 4 * design.rows()) {
    recompute(design, changes);
  } else {
    design.add_gram(changes.rows.data(), changes.weights.data(), count, values_.data());
  }
}

void ActiveGram::recompute(const Design& design, Changes& changes) {
  std::size_t count = 0;
  for (std::size_t j = 0; j < design.rows(); ++j) {
    changes.rows[count] = static_cast<Row>(j);
    changes.weights[count] = 1.0;
    count += member_[j] != 0;
  }
  start_values();
  design.add_gram(changes.rows.data(), changes.weights.data(), count, values_.data());
  changes_ = 0;
}

}  // namespace dconnet
