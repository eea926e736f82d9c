#include "face.hpp"

#include <algorithm>

namespace dconnet {

Face::Face(const Design& design, ActiveGram::Room& room)
    : design_(design),
      side_(design.rows()),
      active_(design.rows()),
      basis_(design),
      forces_(design.stride()),
      v_(design.stride()),
      gradient_(design.stride()),
      active_slopes_(design.stride()),
      coordinates_(design.stride()),
      product_(design.stride()),
      hessian_(design.stride() * design.stride()),
      reduced_(design.stride() * design.stride()),
      room_(room) {}

bool Face::enter(const Programme& programme, const Side* sides, ActiveGram& gram, double* room) {
  programme_ = &programme;
  gram_ = &gram;
  pending_ = 0;
  hessian_known_ = false;
  basis_.clear();
  independent_ = true;
  for (std::size_t j = 0; j < design_.rows(); ++j) {
    side_[j] = sides[j];
    active_[j] = sides[j] == Side::kActive;
    room[j] = active_[j] ? programme.slope[j] : 0.0;
    if (sides[j] == Side::kKink && !basis_.add(j)) return false;
  }
  gram.match(design_, active_.data(), room_);
  design_.apply_transposed(room, active_slopes_.data());
  return true;
}

void Face::move(std::size_t row, Side side) {
  if (side_[row] == Side::kKink) basis_.remove(row);
  if (side == Side::kKink && !basis_.add(row)) independent_ = false;
  const bool was = side_[row] == Side::kActive, is = side == Side::kActive;
  side_[row] = side;
  if (was == is) return;
  room_.rows[pending_] = row;
  room_.weights[pending_] = is ? 1.0 : -1.0;
  if (++pending_ == design_.rows()) update_system();
}

// On the face v = N x: a system in as many unknowns as there are free directions. What is left of the gradient at its
// solution is held by the rows at their kinks.
bool Face::minimise() {
  const std::size_t columns = design_.columns(), stride = design_.stride(), free = basis_.free();
  if (!independent_) return false;
  update_system();
  if (!hessian_known_) make_hessian();
  if (!reduce()) return false;
  for (std::size_t k = 0; k < columns; ++k) gradient_[k] = programme_->linear[k] - active_slopes_[k];
  multiply(basis_.directions(), free, stride, gradient_.data(), coordinates_.data());
  cholesky_solve(reduced_.data(), free, stride, coordinates_.data());
  multiply_transposed(basis_.directions(), free, stride, coordinates_.data(), v_.data());
  multiply(hessian_.data(), columns, stride, v_.data(), product_.data());
  for (std::size_t k = 0; k < columns; ++k) gradient_[k] -= product_[k];
  basis_.forces(gradient_.data(), forces_.data());
  return true;
}

void Face::update_system() {
  if (pending_ == 0) return;
  for (std::size_t i = 0; i < pending_; ++i) {
    const double slope = room_.weights[i] * programme_->slope[room_.rows[i]];
    design_.add_row(room_.rows[i], slope, active_slopes_.data());
  }
  gram_->change(design_, room_, pending_);
  pending_ = 0;
  hessian_known_ = false;
}

void Face::make_hessian() {
  const std::size_t columns = design_.columns(), stride = design_.stride();
  for (std::size_t k = 0; k < columns; ++k) {
    const double* row = gram_->values() + k * stride;
    for (std::size_t l = k; l < columns; ++l) {
      hessian_[k * stride + l] = hessian_[l * stride + k] = 2.0 * programme_->curvature * row[l];
    }
    hessian_[k * stride + k] += 2.0 * programme_->gamma;
  }
  hessian_known_ = true;
}

// The factor of N' H N.
bool Face::reduce() {
  const std::size_t columns = design_.columns(), stride = design_.stride(), free = basis_.free();
  if (basis_.rows().empty()) {
    std::copy(hessian_.begin(), hessian_.end(), reduced_.begin());
    return cholesky(reduced_.data(), columns, stride);
  }
  for (std::size_t i = 0; i < free; ++i) {
    const double* direction = basis_.directions() + i * stride;
    multiply(hessian_.data(), columns, stride, direction, product_.data());
    multiply(direction, free - i, stride, product_.data(), reduced_.data() + i * stride + i);
  }
  return cholesky(reduced_.data(), free, stride);
}

double Face::curvature_along(const double* d) {
  multiply(hessian_.data(), design_.columns(), design_.stride(), d, product_.data());
  return dot(d, product_.data(), design_.columns());
}

// The quadratic of the face: its least value, and the curvature of the way to there.
double Face::value(const double* v) {
  const std::size_t columns = design_.columns();
  double lowest = 0.0;
  for (std::size_t k = 0; k < columns; ++k) {
    lowest -= 0.5 * (programme_->linear[k] - active_slopes_[k]) * v_[k];
    coordinates_[k] = v[k] - v_[k];
  }
  return lowest + 0.5 * curvature_along(coordinates_.data());
}

void Face::multipliers(const double* z, double* multipliers) const {
  for (std::size_t j = 0; j < design_.rows(); ++j) {
    const double slope = programme_->slope[j] + 2.0 * programme_->curvature * std::max(z[j], 0.0);
    multipliers[j] = side_[j] == Side::kActive ? slope : 0.0;
  }
  for (std::size_t i = 0; i < kinks().size(); ++i) {
    multipliers[kinks()[i]] = std::min(std::max(forces_[i], 0.0), programme_->slope[kinks()[i]]);
  }
}

}  // namespace dconnet
