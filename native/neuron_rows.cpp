#include "neuron_rows.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "neuron_rows_pass.hpp"

namespace dconnet {

NeuronRows::NeuronRows(const Design& design, std::size_t n_hidden, std::size_t n_outputs, Team& team)
    : n_hidden_(n_hidden),
      n_outputs_(n_outputs),
      rows_(design, team),
      V_(n_hidden * design.stride()),
      targets_(n_outputs * design.rows()),
      positive_(n_outputs * design.rows()),
      negative_(n_outputs * design.rows()),
      beta_g_(design.rows()),
      beta_h_(design.rows()),
      z_(design.rows()),
      norms_(design.rows()) {
  rows_.each([&](const Leaf& leaf, std::size_t, std::size_t) {
    for (std::size_t j = leaf.first; j < leaf.end(); ++j) norms_[j] = design.norm(j);
  });
}

void NeuronRows::set_targets(const double* y) {
  rows_.each([&](const Leaf& leaf, std::size_t, std::size_t) {
    for (std::size_t o = 0; o < n_outputs_; ++o) {
      for (std::size_t j = leaf.first; j < leaf.end(); ++j) targets_[o * rows() + j] = y[j * n_outputs_ + o];
    }
  });
}

void NeuronRows::set_network(const double* alpha, const double* V, double* squares) {
  for (std::size_t unit = 0; unit < n_hidden_; ++unit) {
    std::copy_n(V + unit * columns(), columns(), V_.data() + unit * design().stride());
  }
  rows_.each([&](const Leaf& leaf, std::size_t i, std::size_t) {
    for (std::size_t o = 0; o < n_outputs_; ++o) {
      std::fill_n(positive_.data() + o * rows() + leaf.first, leaf.count, 0.0);
      std::fill_n(negative_.data() + o * rows() + leaf.first, leaf.count, 0.0);
    }
    for (std::size_t unit = 0; unit < n_hidden_; ++unit) {
      rows_.apply(leaf, V_.data() + unit * design().stride(), z_.data() + leaf.first);
      add_outputs(leaf, alpha + unit * n_outputs_, 1.0);
    }
    squares[i] = 0.0;
    for (std::size_t o = 0; o < n_outputs_; ++o) {
      for (std::size_t j = o * rows() + leaf.first; j < o * rows() + leaf.end(); ++j) {
        const double residual = targets_[j] - (positive_[j] - negative_[j]);
        squares[i] += residual * residual;
      }
    }
  });
}

double NeuronRows::open(const double* alpha, const double* v, Split split, const double* kinks, LeafSums& buffer) {
  curvature_ = dot(alpha, alpha, n_outputs_);
  kink_norms_.resize(kinks ? rows() : 0);
  rows_.each([&](const Leaf& leaf, std::size_t i, std::size_t) {
    open(leaf, alpha, v, split, kinks);
    *buffer.clear(i) = larger(max_abs(beta_g_.data() + leaf.first, leaf.count),
                            max_abs(beta_h_.data() + leaf.first, leaf.count));
  });
  return buffer.largest(0);
}

void NeuronRows::open(const Leaf& leaf, const double* alpha, const double* v, Split split, const double* kinks) {
  if (kinks) {
    rows_.apply(leaf, kinks, kink_norms_.data() + leaf.first);
    for (std::size_t j = leaf.first; j < leaf.end(); ++j) kink_norms_[j] = std::copysign(norms_[j], kink_norms_[j]);
  }
  rows_.apply(leaf, v, z_.data() + leaf.first);
  add_outputs(leaf, alpha, -1.0);
  split_slopes(leaf, alpha, split);
}

void NeuronRows::open(const double* alpha, const double* v, Split split, const double* kinks, double* sums,
                      double* tangents) {
  kink_norms_.resize(kinks ? rows() : 0);
  const double noise = kink_noise(v);
  margins_are_known_ = false;
  curvature_ = dot(alpha, alpha, n_outputs_);
  rows_.each([&](const Leaf& leaf, std::size_t i, std::size_t) {
    open(leaf, alpha, v, split, kinks);
    evaluate_leaf(leaf, nullptr, noise, sums + i * kPassSums, tangents ? tangents + i * stride() : nullptr);
    for (std::size_t j = leaf.first; j < leaf.end(); ++j) places_[j] = z_[j] > 0.0 ? Place::kActive : Place::kInactive;
  });
}

void NeuronRows::evaluate(const double* v, double* sums, double* tangents) {
  const double noise = kink_noise(v);
  margins_are_known_ = false;
  rows_.each([&](const Leaf& leaf, std::size_t i, std::size_t) {
    evaluate_leaf(leaf, v, noise, sums + i * kPassSums, tangents ? tangents + i * stride() : nullptr);
  });
}

// At v, or where z is known. A tile at a time, so that its rows are fetched once.
void NeuronRows::evaluate_leaf(const Leaf& leaf, const double* v, double noise, double* sums, double* tangent) {
  double weights[kTile];
  if (!reference_.empty()) std::fill_n(reference_.data() + leaf.first, leaf.count, static_cast<unsigned char>(0));
  std::fill_n(sums, kPassSums, 0.0);
  if (tangent) std::fill_n(tangent, stride(), 0.0);
  for (std::size_t first = leaf.first; first < leaf.end(); first += kTile) {
    const std::size_t count = std::min(kTile, leaf.end() - first);
    double* z = z_.data() + first;
    const double* beta_h = beta_h_.data() + first;
    if (v) multiply(design().row(first), count, stride(), v, z);
    fastest<add_hinges<true>>(count, beta_g_.data() + first, beta_h, curvature_, z, sums);
    if (!tangent) continue;
    fastest<weigh>(count, noise, kink_norms() + first, beta_h, z, weights);
    add_transposed(design().row(first), count, stride(), weights, tangent);
  }
}

void NeuronRows::close(const double* alpha) {
  rows_.each([&](const Leaf& leaf, std::size_t, std::size_t) { add_outputs(leaf, alpha, 1.0); });
}

void NeuronRows::add_outputs(const Leaf& leaf, const double* alpha, double sign) {
  for (std::size_t o = 0; o < n_outputs_; ++o) {
    double* sum = (alpha[o] > 0.0 ? positive_ : negative_).data() + o * rows() + leaf.first;
    fastest<add_output>(leaf.count, sign * std::fabs(alpha[o]), z_.data() + leaf.first, sum);
  }
}

// Slopes of the convex and of the concave part, for the sums without the neuron itself.
void NeuronRows::split_slopes(const Leaf& leaf, const double* alpha, Split split) {
  double* beta_g = beta_g_.data() + leaf.first;
  double* beta_h = beta_h_.data() + leaf.first;
  std::fill_n(beta_g, leaf.count, kEmptySum);
  std::fill_n(beta_h, leaf.count, kEmptySum);
  for (std::size_t o = 0; o < n_outputs_; ++o) {
    const std::size_t begin = o * rows() + leaf.first;
    const double *positive = positive_.data() + begin, *negative = negative_.data() + begin;
    const bool up = alpha[o] > 0.0;
    const OutputView output{targets_.data() + begin, up ? positive : negative, up ? negative : positive,
                            up ? 1.0 : -1.0, 2.0 * std::fabs(alpha[o])};
    if (split == Split::kPaper) fastest<add_paper_slopes>(output, leaf.count, beta_g, beta_h);
    else fastest<add_net_slopes>(output, leaf.count, beta_g);
  }
  if (split == Split::kPaper) return;
  for (std::size_t j = 0; j < leaf.count; ++j) {
    const double slope = beta_g[j];
    beta_g[j] = std::max(slope, 0.0);
    beta_h[j] = std::max(-slope, 0.0);
  }
}

void NeuronRows::ratios(double* ratios) {
  rows_.each([&](const Leaf& leaf, std::size_t i, std::size_t) {
    double* to = ratios + i * kRatios;
    std::fill_n(to, kRatios, -1.0);
    for (std::size_t j = leaf.first; j < leaf.end(); j += kRatioSpacing, ++to) {
      if (norms_[j] > 0.0) *to = std::fabs(z_[j]) / norms_[j];
    }
  });
}

void NeuronRows::allocate_near_and_far() {
  reference_.resize(rows());
  margins_.resize(rows());
  places_.resize(rows());
  summed_.resize(rows());
  list_.resize(rows());
  listed_.resize(leaves());
  offsets_.resize(leaves());
}

void NeuronRows::choose(double reach, double* counts) {
  rows_.each([&](const Leaf& leaf, std::size_t i, std::size_t) {
    const std::size_t first = leaf.first;
    Place now[kLeaf];
    listed_[i] = fastest<find_places>(first, leaf.count, reach, z_.data(), norms_.data(), now, list_.data() + first);
    double* to = counts + i * kCounts;
    to[kNear] = static_cast<double>(listed_[i]);
    fastest<count_places>(leaf.count, now, places_.data() + first, summed_.data() + first, to);
    std::fill_n(reference_.data() + first, leaf.count, static_cast<unsigned char>(0));
    measure_margins(leaf);
  });
  margins_are_known_ = true;
}

void NeuronRows::measure_margins(const Leaf& leaf) {
  const std::size_t first = leaf.first;
  fastest<measure>(leaf.count, places_.data() + first, z_.data() + first, norms_.data() + first, margins_.data() + first);
}

// Adds the numbers that body(leaf, its sums) makes of every leaf, in their order. At most 32 MiB of them are made at once.
template <typename Body>
void NeuronRows::add_leaf_sums(std::vector<double>& sums, const Body& body) {
  constexpr std::size_t kMostNumbers = std::size_t{1} << 22;
  const std::size_t size = sums.size(), at_once = std::min(leaves(), std::max<std::size_t>(2, kMostNumbers / size));
  parts_.resize(std::max(parts_.size(), at_once * size));
  for (std::size_t first = 0; first < leaves(); first += at_once) {
    const std::size_t count = std::min(at_once, leaves() - first);
    rows_.team().run(count, [&](std::size_t i, std::size_t) {
      std::fill_n(parts_.data() + i * size, size, 0.0);
      body(rows_.leaves()[first + i], parts_.data() + i * size);
    });
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t k = 0; k < size; ++k) sums[k] += parts_[i * size + k];
    }
  }
}

void NeuronRows::add_far_sums(bool from_scratch, std::vector<double>& sums) {
  constexpr std::size_t kBatch = 256;  // rows that are added together
  assert(sums.size() == stride() * (stride() + 2) && summed_.size() == rows());
  add_leaf_sums(sums, [&](const Leaf& leaf, double* gram) {
    double *slopes_g = gram + stride() * stride(), *slopes_h = slopes_g + stride();
    Row rows[kBatch];
    double weights[kBatch], beta_g[kBatch], beta_h[kBatch];
    std::size_t count = 0;
    const auto add = [&] {
      design().add_gram(rows, weights, count, gram);
      fastest<add_listed>(design().row(0), stride(), rows, count, beta_g, slopes_g);
      fastest<add_listed>(design().row(0), stride(), rows, count, beta_h, slopes_h);
      count = 0;
    };
    for (std::size_t j = leaf.first; j < leaf.end(); ++j) {
      const bool is = places_[j] == Place::kActive, was = !from_scratch && summed_[j] != 0;
      summed_[j] = is;
      if (is == was) continue;
      rows[count] = static_cast<Row>(j);
      weights[count] = is ? 1.0 : -1.0;
      beta_g[count] = weights[count] * beta_g_[j];
      beta_h[count] = weights[count] * beta_h_[j];
      if (++count == kBatch) add();
    }
    if (count > 0) add();
  });
}

void NeuronRows::recheck_far(const double* v, double noise, std::size_t number, const double* distances, double* counts) {
  assert(number < kReferences && places_.size() == rows());
  float limits[kReferences];
  for (std::size_t i = 0; i < number; ++i) limits[i] = above(distances[i] + noise);
  rows_.each([&](const Leaf& leaf, std::size_t i, std::size_t) {
    if (!margins_are_known_) measure_margins(leaf);
    Row* list = list_.data() + leaf.first;
    const std::size_t in_doubt =
        fastest<list_in_doubt>(leaf.first, leaf.count, margins_.data(), reference_.data(), limits, list);
    listed_[i] = recheck(list, in_doubt, v, noise, number);
    counts[i] = static_cast<double>(listed_[i]);
  });
  margins_are_known_ = true;
}

// Evaluates the listed rows, and keeps those in the list that have changed sides.
std::size_t NeuronRows::recheck(Row* list, std::size_t in_doubt, const double* v, double noise, std::size_t number) {
  std::size_t n_changed = 0;
  double z[kTile];
  for (std::size_t first = 0; first < in_doubt; first += kTile) {
    const std::size_t count = std::min(kTile, in_doubt - first);
    design().apply_to_rows(list + first, count, v, z);
    for (std::size_t k = 0; k < count; ++k) {
      const Row j = list[first + k];
      z_[j] = z[k];
      reference_[j] = static_cast<unsigned char>(number);
      margins_[j] = margin_of(places_[j], z[k], norms_[j]);
      const double beyond = places_[j] == Place::kActive ? z[k] : -z[k];
      list[n_changed] = j;
      n_changed += !(beyond > noise * norms_[j]);
    }
  }
  return n_changed;
}

void NeuronRows::collect(const PackedRows& to) {
  for (std::size_t i = 1; i < leaves(); ++i) offsets_[i] = offsets_[i - 1] + listed_[i - 1];
  rows_.each([&](const Leaf& leaf, std::size_t i, std::size_t) {
    for (std::size_t k = 0; k < listed_[i]; ++k) {
      const Row j = list_[leaf.first + k];
      const std::size_t at = offsets_[i] + k;
      const bool is_active = places_[j] == Place::kActive;
      std::copy_n(design().row(j), stride(), to.q + at * stride());
      to.beta_g[at] = beta_g_[j];
      to.beta_h[at] = beta_h_[j];
      to.z[at] = z_[j];
      to.active[at] = is_active;
      if (is_active) summed_[j] = 0;  // `FarRows` takes it out of the sums
      places_[j] = Place::kNear;
      margins_[j] = kNeverInDoubt;
    }
  });
}

void NeuronRows::zero_sums(const double* x, std::vector<double>& sums) {
  assert(sums.size() == stride() * (stride() + 1) + 2);
  std::fill(sums.begin(), sums.end(), 0.0);
  add_leaf_sums(sums, [&](const Leaf& leaf, double* gram) {
    double *pull = gram + stride() * stride(), *rise = pull + stride();
    double along[kTile], multipliers[kTile], ones[kTile];
    Row between[kTile];
    std::fill_n(ones, kTile, 1.0);
    for (std::size_t first = leaf.first; first < leaf.end(); first += kTile) {
      const std::size_t count = std::min(kTile, leaf.end() - first);
      multiply(design().row(first), count, stride(), x, along);
      const std::size_t found =
          fastest<move_multipliers>(count, first, along, beta_g_.data() + first, multipliers, between, rise);
      add_transposed(design().row(first), count, stride(), multipliers, pull);
      design().add_gram(between, ones, found, gram);
    }
  });
}

}  // namespace dconnet
