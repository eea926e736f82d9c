#include "face.hpp"

#include <algorithm>

#include "dense.hpp"
#include "dispatch.hpp"
#include "lanes.hpp"

namespace dconnet {

namespace {

// With fewer columns a new factor costs no more than to bring the old one up to date.
constexpr std::size_t kColumnsWorthUpdating = 24;
// The same for this many changes a free direction.
constexpr std::size_t kColumnsPerChange = 2;
// What may be left of the gradient in the free directions, relative to what pulls: from the first number on it is
// corrected, and beyond the second one that was not enough.
constexpr double kResidual = 1e-14, kLargestResidual = 1e-12;

// The slopes of the active rows at z, and zero for the others.
DCONNET_INLINE void slopes_at(std::size_t rows, const Side* sides, const double* slope, double curvature,
                              const double* z, double* slopes) {
  for (std::size_t j = 0; j < rows; ++j) {
    const double there = slope[j] + 2.0 * curvature * (z[j] > 0.0 ? z[j] : 0.0);
    slopes[j] = sides[j] == Side::kActive ? there : 0.0;
  }
}

}  // namespace

Face::Face(const Design& design, ActiveGram::Changes& changes)
    : design_(design),
      side_(design.rows()),
      active_(design.rows()),
      basis_(design),
      factor_(design.columns(), design.stride()),
      forces_(design.stride()),
      v_(design.stride()),
      gradient_(design.stride()),
      active_slopes_(design.stride()),
      pull_(design.stride()),
      coordinates_(design.stride()),
      product_(design.stride()),
      changes_(changes) {}

bool Face::enter(const Programme& programme, const Side* sides, ActiveGram& gram, double* buffer) {
  programme_ = &programme;
  gram_ = &gram;
  pending_ = 0;
  factor_.forget();
  basis_.clear();
  independent_ = true;
  for (std::size_t j = 0; j < design_.rows(); ++j) {
    side_[j] = sides[j];
    active_[j] = sides[j] == Side::kActive;
    buffer[j] = active_[j] ? programme.slope[j] : 0.0;
    if (sides[j] == Side::kKink && !basis_.add(j)) return false;
  }
  gram.match(design_, active_.data(), changes_);
  design_.apply_transposed(buffer, active_slopes_.data());
  return true;
}

void Face::admit(std::size_t row, bool active) {
  factor_.forget();
  side_[row] = Side::kInactive;
  if (active) move(row, Side::kActive);
}

void Face::move(std::size_t row, Side side) {
  if (side_[row] == Side::kKink) let_go(row);
  if (side == Side::kKink) hold(row);
  const bool was = side_[row] == Side::kActive, is = side == Side::kActive;
  side_[row] = side;
  if (was == is) return;
  changes_.rows[pending_] = static_cast<Row>(row);
  changes_.weights[pending_] = is ? 1.0 : -1.0;
  if (++pending_ == design_.rows()) update_system();
}

void Face::hold(std::size_t row) {
  if (!basis_.add(row)) {
    independent_ = false;
    return factor_.forget();
  }
  if (is_worth_updating(0)) {
    factor_.lose_direction(basis_.turns());
  } else {
    factor_.forget();
  }
}

void Face::let_go(std::size_t row) {
  if (!is_worth_updating(0)) factor_.forget();
  if (factor_.known()) update_system();
  if (!basis_.remove(row)) return;  // `add` had refused it
  if (basis_.rows().empty()) factor_.forget();  // the basis starts from scratch
  if (!factor_.known()) return;
  const std::size_t old = basis_.free() - 1, stride = design_.stride();
  const double* direction = basis_.directions() + old * stride;
  apply_hessian(direction);
  multiply(basis_.directions(), old, stride, product_.data(), coordinates_.data());
  factor_.gain_direction(coordinates_.data(), dot(direction, product_.data(), design_.columns()));
}

// On the face v = Nᵀ x: a system in as many unknowns as there are free directions. What is left of the gradient at its
// solution is held by the rows at their kinks.
bool Face::minimise() {
  if (!independent_) return false;
  update_system();
  for (std::size_t k = 0; k < design_.columns(); ++k) pull_[k] = programme_->linear[k] - active_slopes_[k];
  if (!(factor_.known() && solve_with_updates()) && !solve_from_scratch()) return false;
  basis_.forces(gradient_.data(), forces_.data());
  return true;
}

bool Face::solve_from_scratch() {
  if (!factor_.factorise(basis_, gram_->values(), programme_->curvature, programme_->gamma)) return false;
  std::copy(pull_.begin(), pull_.end(), gradient_.begin());
  std::fill(v_.begin(), v_.end(), 0.0);
  descend();
  return true;
}

// A correction brings back the digits that the updates of the factor have lost; false if they are too many.
bool Face::solve_with_updates() {
  std::copy(pull_.begin(), pull_.end(), gradient_.begin());
  std::fill(v_.begin(), v_.end(), 0.0);
  descend();
  if (free_gradient() <= kResidual) return true;
  descend();
  return free_gradient() <= kLargestResidual;
}

// A Newton step from v, where the gradient is, downhill, to what the factor takes for the minimiser.
void Face::descend() {
  const std::size_t stride = design_.stride(), free = basis_.free();
  multiply(basis_.directions(), free, stride, gradient_.data(), coordinates_.data());
  factor_.solve(coordinates_.data());
  multiply_transposed(basis_.directions(), free, stride, coordinates_.data(), product_.data());
  for (std::size_t k = 0; k < stride; ++k) v_[k] += product_[k];
  apply_hessian(v_.data());
  for (std::size_t k = 0; k < design_.columns(); ++k) gradient_[k] = pull_[k] - product_[k];
}

// How much of the gradient is left in the free directions, relative to what pulls.
double Face::free_gradient() {
  multiply(basis_.directions(), basis_.free(), design_.stride(), gradient_.data(), coordinates_.data());
  return max_abs(coordinates_.data(), basis_.free()) / max_abs(pull_.data(), design_.columns());
}

// product_ = H v
void Face::apply_hessian(const double* v) {
  multiply_symmetric(gram_->values(), design_.stride(), v, product_.data());
  for (std::size_t k = 0; k < design_.columns(); ++k) {
    product_[k] = 2.0 * (programme_->curvature * product_[k] + programme_->gamma * v[k]);
  }
}

void Face::update_system() {
  if (pending_ == 0) return;
  if (!is_worth_updating(pending_)) factor_.forget();
  for (std::size_t i = 0; i < pending_; ++i) {
    const std::size_t row = changes_.rows[i];
    const double weight = changes_.weights[i];
    design_.add_row(row, weight * programme_->slope[row], active_slopes_.data());
    if (!factor_.known()) continue;
    multiply(basis_.directions(), basis_.free(), design_.stride(), design_.row(row), coordinates_.data());
    factor_.change(2.0 * weight * programme_->curvature, coordinates_.data());
  }
  gram_->change(design_, changes_, pending_);
  pending_ = 0;
}

bool Face::is_worth_updating(std::size_t changes) const {
  return design_.columns() >= kColumnsWorthUpdating && kColumnsPerChange * changes <= basis_.free();
}

double Face::curvature_along(const double* d) {
  apply_hessian(d);
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
  fastest<slopes_at>(design_.rows(), side_.data(), programme_->slope, programme_->curvature, z, multipliers);
  for (std::size_t i = 0; i < kinks().size(); ++i) {
    multipliers[kinks()[i]] = std::min(std::max(forces_[i], 0.0), programme_->slope[kinks()[i]]);
  }
}

}  // namespace dconnet
