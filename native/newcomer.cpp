#include "newcomer.hpp"

#include <algorithm>
#include <cmath>

#include "dense.hpp"

namespace dconnet {

namespace {

constexpr std::size_t kStarts = 8;
constexpr int kSteps = 10;
// A climb that gains less than this share in a step has arrived.
constexpr double kArrived = 1e-3;

}  // namespace

Newcomer::Newcomer(Evaluations& evaluations)
    : evaluations_(evaluations),
      climbs_(kStarts),
      directions_(kStarts * evaluations.layout().stride),
      best_(evaluations.layout().stride),
      best_output_(evaluations.layout().n_outputs) {
  under_way_.reserve(kStarts);
  for (Climb& climb : climbs_) {
    climb.v.resize(best_.size());
    climb.output.resize(best_output_.size());
  }
}

bool Newcomer::seek(const double* theta, Random& random) {
  const std::size_t stride = evaluations_.layout().stride;
  decrease_ = 0.0;
  draw(random);
  for (int step = 0; step < kSteps; ++step) {
    const auto stuck = [&](Climb* climb) { return !make_unit(*climb); };
    under_way_.erase(std::remove_if(under_way_.begin(), under_way_.end(), stuck), under_way_.end());
    if (under_way_.empty()) break;
    for (std::size_t i = 0; i < under_way_.size(); ++i) {
      std::copy_n(under_way_[i]->v.data(), stride, directions_.data() + i * stride);
    }
    evaluations_.match_all(theta, directions_.data(), under_way_.size());
    std::size_t left = 0;
    for (std::size_t i = 0; i < under_way_.size(); ++i) {
      if (record(*under_way_[i], evaluations_.match(i), step)) under_way_[left++] = under_way_[i];
    }
    under_way_.resize(left);
  }
  return decrease_ > 0.0;
}

void Newcomer::draw(Random& random) {
  under_way_.clear();
  for (std::size_t start = 0; start < kStarts; ++start) {
    Climb& climb = climbs_[start];
    for (std::size_t k = 0; k < evaluations_.layout().columns; ++k) climb.v[k] = random.normal();
    climb.output[0] = start % 2 == 0 ? 1.0 : -1.0;  // with several outputs the residual gives the direction
    climb.last = 0.0;
    under_way_.push_back(&climb);
  }
}

bool Newcomer::make_unit(Climb& climb) const {
  const std::size_t columns = evaluations_.layout().columns;
  const double length = std::sqrt(dot(climb.v.data(), climb.v.data(), columns));
  if (!(length > 0.0)) return false;
  for (std::size_t k = 0; k < columns; ++k) climb.v[k] /= length;
  return true;
}

// Keeps the neuron if it is the best one; true if the climb continues.
bool Newcomer::record(Climb& climb, const Evaluations::Match& match, int step) {
  const double height = match_of(climb, match.products);
  const double excess = height - evaluations_.gamma();
  if (excess > 0.0 && excess * excess > decrease_ * match.square) {
    decrease_ = excess * excess / match.square;
    weight_ = excess / match.square;
    best_ = climb.v;
    best_output_ = climb.output;
  }
  if (step > 2 && height <= climb.last * (1.0 + kArrived)) return false;
  climb.last = height;
  follow(climb, match.pulls);
  return true;
}

// u'r'max(Qv, 0); with several outputs u becomes the best one, if there is one.
double Newcomer::match_of(Climb& climb, const double* products) const {
  const std::size_t n_outputs = climb.output.size();
  if (n_outputs == 1) return climb.output[0] * products[0];
  const double length = std::sqrt(dot(products, products, n_outputs));
  for (std::size_t o = 0; o < n_outputs; ++o) climb.output[o] = length > 0.0 ? products[o] / length : 0.0;
  return length;
}

// The gradient of the match in v.
void Newcomer::follow(Climb& climb, const double* pulls) const {
  const std::size_t stride = climb.v.size();
  std::fill(climb.v.begin(), climb.v.end(), 0.0);
  for (std::size_t o = 0; o < climb.output.size(); ++o) {
    for (std::size_t k = 0; k < stride; ++k) climb.v[k] += climb.output[o] * pulls[o * stride + k];
  }
}

}  // namespace dconnet
