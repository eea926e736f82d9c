#include "boosting.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "dispatch.hpp"
#include "lanes.hpp"
#include "random.hpp"

namespace dconnet {
namespace {

// Sums over the rows of a bin: gradient, curvature, number of rows. Four lanes are one instruction on every processor.
typedef float BinSums __attribute__((vector_size(16)));

// Number of rows above which the thresholds of a column are computed from a part of the rows, at least as many.
constexpr std::size_t kRowsOfBins = 100'000;
// Least curvature of a leaf, below which its value would be unbounded.
constexpr double kMinCurvature = 1e-3;
// Least gain of a split, relative to the score of its leaf: beyond the rounding errors of the sums.
constexpr double kMinGain = 1e-6;
// Rows whose gradients are added one by one; the sums of such blocks are added to each other. In single precision, a sum of a
// million equal numbers would be wrong by one per cent.
constexpr std::size_t kRowsOfSums = 16'384;
// Rows whose values stay in the cache while all trees are applied to them.
constexpr std::size_t kBlock = 64;
// Rows that move through a tree side by side, because each waits for its node.
constexpr std::size_t kTogether = 8;
// Columns whose codes are neighbours: their histograms stay in the innermost cache, and their pointers in registers.
constexpr std::size_t kGroup = 4;
// Number of rows ahead of which codes are fetched. The processor cannot foresee them, because rows of a leaf are far apart.
constexpr std::size_t kAhead = 32;

using Row = std::uint32_t;

struct Derivatives {
  float gradient, curvature;
};

struct Sums {
  double gradient = 0.0, curvature = 0.0, rows = 0.0;

  void add(const BinSums& bin) {
    gradient += static_cast<double>(bin[0]);
    curvature += static_cast<double>(bin[1]);
    rows += static_cast<double>(bin[2]);
  }
};

// A threshold between two neighbouring values.
double between(double low, double high) {
  const double middle = low + 0.5 * (high - low);
  return middle < high ? middle : low;
}

// At most n_bins - 1 thresholds that divide the values of a column into bins of about equal numbers of rows.
std::vector<double> find_thresholds(std::vector<double>& values, std::size_t n_bins) {
  std::sort(values.begin(), values.end());
  std::vector<double> distinct(values);
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  std::vector<double> thresholds;
  if (distinct.size() <= n_bins) {
    for (std::size_t i = 1; i < distinct.size(); ++i) thresholds.push_back(between(distinct[i - 1], distinct[i]));
    return thresholds;
  }
  for (std::size_t k = 1; k < n_bins; ++k) {
    const double value = values[k * values.size() / n_bins];
    const auto above = std::upper_bound(distinct.begin(), distinct.end(), value);
    if (above == distinct.end()) break;
    const double threshold = between(value, *above);
    if (thresholds.empty() || threshold > thresholds.back()) thresholds.push_back(threshold);
  }
  return thresholds;
}

// The columns of X as numbers of bins: groups of columns, each row by row. The last bin of a column holds the missing values.
struct BinnedRows {
  BinnedRows(const BoostingRows& rows, std::size_t n_bins, const std::function<bool(std::size_t)>& proceed)
      : n_rows(rows.n_rows), n_columns(rows.n_columns), thresholds(n_columns), firsts(n_columns + 1),
        codes(n_rows * ((n_columns + kGroup - 1) / kGroup * kGroup)) {
    // One row at random of each few neighbours: at equal distances, all could be the same row of a repeated pattern.
    const std::size_t stride = std::max<std::size_t>(1, n_rows / kRowsOfBins);
    Random random(0);
    std::vector<std::size_t> sample;
    for (std::size_t j = 0; j < n_rows; j += stride) sample.push_back(j + random.below(std::min(stride, n_rows - j)));
    std::vector<double> values;
    for (std::size_t c = 0; c < n_columns; ++c) {
      if (!proceed(0)) return;
      values.clear();
      for (const std::size_t j : sample) {
        const double x = rows.X[j * n_columns + c];
        if (!std::isnan(x)) values.push_back(x);
      }
      thresholds[c] = find_thresholds(values, n_bins);
      firsts[c + 1] = firsts[c] + thresholds[c].size() + 2;
    }
    for (std::size_t j = 0; j < n_rows; ++j) {
      if (j % kRowsOfSums == 0 && !proceed(0)) return;
      for (std::size_t c = 0; c < n_columns; ++c) {
        const std::vector<double>& own = thresholds[c];
        const double x = rows.X[j * n_columns + c];
        const std::size_t bin = std::isnan(x) ? own.size() + 1
                                              : static_cast<std::size_t>(std::lower_bound(own.begin(), own.end(), x) - own.begin());
        codes[(c / kGroup * n_rows + j) * kGroup + c % kGroup] = static_cast<std::uint8_t>(bin);
      }
    }
    is_complete = true;
  }

  // The codes of a column, of which each row has one every kGroup places.
  const std::uint8_t* codes_of(std::size_t column) const {
    return codes.data() + column / kGroup * n_rows * kGroup + column % kGroup;
  }

  bool is_complete = false;  // false if the caller did not proceed
  std::size_t n_rows, n_columns;
  std::vector<std::vector<double>> thresholds;
  std::vector<std::size_t> firsts;  // where the bins of each column begin
  std::vector<std::uint8_t> codes;  // (n_groups, n_rows, kGroup)
};

// A division of the rows of a leaf: rows of the first bins, up to and including `bin`, against the others.
struct Split {
  double gain = 0.0;
  std::size_t column = 0, bin = 0;
  bool missing_second = false;
};

struct Leaf {
  std::size_t begin, end;  // places of its rows in the order
  std::size_t node, depth;
  std::size_t histogram;
  Sums sums;
  Split best;
};

// Sums over the first bins of a column, and the scores of the divisions after these bins.
struct Divisions {
  std::vector<double> gradients, curvatures, rows, scores;
};

// Writes the scores of all divisions of a leaf with these sums, zero for those that are not allowed. `below` holds the sums of
// the rows before the first bin.
DCONNET_INLINE void score_splits(const BinSums* bins, std::size_t n_bins, const Sums& below, const Sums& all,
                                 const BoostingOptions& options, Divisions& divisions) {
  double *__restrict gradients = divisions.gradients.data(), *__restrict curvatures = divisions.curvatures.data();
  double *__restrict rows = divisions.rows.data(), *__restrict scores = divisions.scores.data();
  Sums sums = below;
  for (std::size_t b = 0; b < n_bins; ++b) {
    sums.add(bins[b]);
    gradients[b] = sums.gradient;
    curvatures[b] = sums.curvature;
    rows[b] = sums.rows;
  }
  const double penalty = options.leaf_penalty, least = static_cast<double>(options.min_leaf) - 0.5;
  Lanes gradient, curvature, n_rows;
  for (std::size_t b = 0; b < n_bins; b += kLanes) {
    load(gradient, gradients + b);
    load(curvature, curvatures + b);
    load(n_rows, rows + b);
    const Lanes other_gradient = all.gradient - gradient, other_curvature = all.curvature - curvature;
    const Lanes score = gradient * gradient / (curvature + penalty) + other_gradient * other_gradient / (other_curvature + penalty);
    const auto is_allowed = (n_rows >= least) & (all.rows - n_rows >= least) & (curvature >= kMinCurvature) &
                            (other_curvature >= kMinCurvature);
    store(scores + b, is_allowed ? score : Lanes{});
  }
}

class TreeGrower {
 public:
  TreeGrower(const BinnedRows& binned, const BoostingOptions& options)
      : binned_(binned), options_(options), order_(binned.n_rows), moved_(binned.n_rows), derivatives_(binned.n_rows),
        added_(std::min(binned.n_rows, kRowsOfSums)),
        bins_(options.n_leaves * binned.firsts.back()), block_(binned.firsts.back()) {
    for (auto* own : {&divisions_.gradients, &divisions_.curvatures, &divisions_.rows, &divisions_.scores}) {
      own->resize(round_up_to_lanes(options.n_bins + 1));
    }
  }

  // Where the gradient and curvature of every row are written before `grow`.
  std::vector<Derivatives>& derivatives() { return derivatives_; }

  // Grows a tree from node `root` on, adds its values to the outputs of the rows, and returns the next free node.
  std::size_t grow(std::size_t root, const GrownNodes& nodes, double* outputs, std::size_t stride) {
    std::iota(order_.begin(), order_.end(), Row{0});
    std::size_t next = root + 1;
    std::vector<Leaf> leaves{{0, order_.size(), root, 0, 0, {}, {}}};
    set_leaf(nodes, root);
    fill(leaves[0]);
    leaves[0].sums = sum_of(leaves[0]);
    find_split(leaves[0]);
    while (leaves.size() < options_.n_leaves) {
      const auto by_gain = [](const Leaf& x, const Leaf& y) { return x.best.gain < y.best.gain; };
      Leaf& parent = *std::max_element(leaves.begin(), leaves.end(), by_gain);
      if (parent.best.gain <= 0.0) break;
      write_split(parent, next, nodes);
      const std::size_t middle = divide(parent);
      Leaf second = {middle, parent.end, next + 1, parent.depth + 1, leaves.size(), {}, {}};
      parent.end = middle;
      parent.node = next;
      ++parent.depth;
      next += 2;
      set_leaf(nodes, parent.node);
      set_leaf(nodes, second.node);
      if (leaves.size() + 1 < options_.n_leaves) find_splits(parent, second);
      leaves.push_back(second);
    }
    // Reading all rows in sequence is faster than leaf by leaf.
    std::vector<Row>& leaf_of = moved_;
    for (std::size_t k = 0; k < leaves.size(); ++k) {
      for (std::size_t i = leaves[k].begin; i < leaves[k].end; ++i) leaf_of[order_[i]] = static_cast<Row>(k);
      leaves[k].sums = {};
    }
    for (std::size_t j = 0; j < derivatives_.size(); ++j) {
      Sums& sums = leaves[leaf_of[j]].sums;
      sums.gradient += static_cast<double>(derivatives_[j].gradient);
      sums.curvature += static_cast<double>(derivatives_[j].curvature);
    }
    for (const Leaf& leaf : leaves) {
      const double gradient = leaf.sums.gradient, curvature = leaf.sums.curvature;
      double value = -options_.learning_rate * gradient / (curvature + options_.leaf_penalty);
      // Where targets are far below the outputs, the Newton step of the deviance goes far beyond its minimum.
      if (options_.loss == BoostingLoss::kGamma && gradient > 0.0) {
        value = std::max(value, std::log(curvature / (curvature + gradient)));
      }
      nodes.values[leaf.node] = value;
    }
    for (std::size_t j = 0; j < derivatives_.size(); ++j) outputs[j * stride] += nodes.values[leaves[leaf_of[j]].node];
    return next;
  }

 private:
  static void set_leaf(const GrownNodes& nodes, std::size_t node) {
    nodes.columns[node] = 0;
    nodes.thresholds[node] = nodes.values[node] = 0.0;
    nodes.children[2 * node] = nodes.children[2 * node + 1] = static_cast<std::int32_t>(node);
  }

  BinSums* histogram_of(const Leaf& leaf) { return bins_.data() + leaf.histogram * binned_.firsts.back(); }

  void fill(const Leaf& leaf) {
    BinSums* histogram = histogram_of(leaf);
    std::fill(histogram, histogram + block_.size(), BinSums{});
    if (leaf.end - leaf.begin <= kRowsOfSums) {
      add_rows(leaf.begin, leaf.end, histogram);
      return;
    }
    for (std::size_t begin = leaf.begin; begin < leaf.end; begin += kRowsOfSums) {
      std::fill(block_.begin(), block_.end(), BinSums{});
      add_rows(begin, std::min(leaf.end, begin + kRowsOfSums), block_.data());
      for (std::size_t b = 0; b < block_.size(); ++b) histogram[b] += block_[b];
    }
  }

  // Adds at most kRowsOfSums rows, at some places of the order, to a histogram.
  void add_rows(std::size_t begin, std::size_t end, BinSums* histogram) {
    for (std::size_t i = begin; i < end; ++i) {
      const Derivatives& own = derivatives_[order_[i]];
      added_[i - begin] = BinSums{own.gradient, own.curvature, 1.0f, 0.0f};
    }
    const Row* rows = order_.data() + begin;
    std::size_t c = 0;
    for (; c + kGroup <= binned_.n_columns; c += kGroup) add_columns<kGroup>(c, rows, end - begin, histogram);
    for (; c < binned_.n_columns; ++c) add_columns<1>(c, rows, end - begin, histogram);
  }

  // Adds rows to the histograms of neighbouring columns.
  template <std::size_t Columns>
  void add_columns(std::size_t column, const Row* rows, std::size_t n_rows, BinSums* histogram) const {
    const std::uint8_t* codes = binned_.codes_of(column);
    const BinSums* added = added_.data();
    BinSums* bins[Columns];
    for (std::size_t c = 0; c < Columns; ++c) bins[c] = histogram + binned_.firsts[column + c];
    for (std::size_t i = 0; i < n_rows; ++i) {
      __builtin_prefetch(codes + kGroup * rows[std::min(i + kAhead, n_rows - 1)]);
      const std::uint8_t* own = codes + kGroup * rows[i];
      for (std::size_t c = 0; c < Columns; ++c) bins[c][own[c]] += added[i];
    }
  }

  Sums sum_of(const Leaf& leaf) {
    Sums sums;
    const BinSums* histogram = histogram_of(leaf);
    for (std::size_t b = 0; b < binned_.firsts[1]; ++b) sums.add(histogram[b]);
    return sums;
  }

  // Finds the splits of two new leaves; the first has the histogram of both.
  void find_splits(Leaf& first, Leaf& second) {
    if (first.end - first.begin < second.end - second.begin) std::swap(first.histogram, second.histogram);
    Leaf& larger = first.histogram < second.histogram ? first : second;
    Leaf& smaller = first.histogram < second.histogram ? second : first;
    const bool is_open = first.depth < options_.max_depth && larger.end - larger.begin >= 2 * options_.min_leaf;
    if (!is_open) {
      first.best = second.best = {};
      return;
    }
    fill(smaller);
    BinSums* rest = histogram_of(larger);
    const BinSums* taken = histogram_of(smaller);
    for (std::size_t b = 0; b < block_.size(); ++b) rest[b] -= taken[b];
    first.sums = sum_of(first);
    second.sums = sum_of(second);
    find_split(first);
    find_split(second);
  }

  void find_split(Leaf& leaf) {
    leaf.best = {};
    if (leaf.end - leaf.begin < 2 * options_.min_leaf) return;
    const double score = leaf.sums.gradient * leaf.sums.gradient / (leaf.sums.curvature + options_.leaf_penalty);
    double best = score * (1.0 + kMinGain);
    for (std::size_t column = 0; column < binned_.n_columns; ++column) {
      const std::size_t first = binned_.firsts[column], n_bins = binned_.firsts[column + 1] - 1 - first;
      const BinSums* bins = histogram_of(leaf) + first;
      Sums missing;
      missing.add(bins[n_bins]);
      const bool has_missing = missing.rows > 0.5;
      const auto compare = [&](const Sums& below, bool missing_second) {
        fastest<score_splits>(bins, n_bins, below, leaf.sums, options_, divisions_);
        for (std::size_t b = 0; b < n_bins; ++b) {
          if (divisions_.scores[b] <= best || bins[b][2] < 0.5f) continue;  // an empty bin: the same division as before
          best = divisions_.scores[b];
          leaf.best = {best - score, column, b, missing_second};
        }
      };
      if (has_missing) compare(missing, false);
      compare({}, has_missing);
    }
  }

  void write_split(const Leaf& leaf, std::size_t next, const GrownNodes& nodes) const {
    const Split& split = leaf.best;
    const std::vector<double>& thresholds = binned_.thresholds[split.column];
    // After the last bin there are missing values alone.
    nodes.thresholds[leaf.node] =
        split.bin < thresholds.size() ? thresholds[split.bin] : std::numeric_limits<double>::max();
    nodes.columns[leaf.node] = static_cast<std::int32_t>(split.column + (split.missing_second ? binned_.n_columns : 0));
    nodes.children[2 * leaf.node] = static_cast<std::int32_t>(next);
    nodes.children[2 * leaf.node + 1] = static_cast<std::int32_t>(next + 1);
  }

  // Moves the rows of the first child before those of the second, each in their order, and returns where the latter begin.
  std::size_t divide(const Leaf& leaf) {
    const Split& split = leaf.best;
    const std::uint8_t* codes = binned_.codes_of(split.column);
    const std::size_t missing = binned_.thresholds[split.column].size() + 1;
    std::size_t first = leaf.begin, second = 0;
    for (std::size_t i = leaf.begin; i < leaf.end; ++i) {
      const Row row = order_[i];
      const std::size_t code = codes[kGroup * row];
      const bool is_second = (code > split.bin) & (split.missing_second | (code != missing));
      order_[first] = row;
      moved_[second] = row;
      first += is_second ? 0 : 1;
      second += is_second ? 1 : 0;
    }
    std::copy(moved_.begin(), moved_.begin() + static_cast<std::ptrdiff_t>(second),
              order_.begin() + static_cast<std::ptrdiff_t>(first));
    return first;
  }

  const BinnedRows& binned_;
  const BoostingOptions& options_;
  std::vector<Row> order_, moved_;
  std::vector<Derivatives> derivatives_;  // of all rows
  std::vector<BinSums> added_;  // of rows that are added to a histogram
  std::vector<BinSums> bins_;   // (n_leaves, bins of all columns)
  std::vector<BinSums> block_;  // sums over a block of rows, for the bins of all columns
  Divisions divisions_;
};

Derivatives derivatives_of(double gradient, double curvature) {
  return {static_cast<float>(gradient), static_cast<float>(curvature)};
}

// Writes the gradient and curvature of every row for one output.
void differentiate(const BoostingRows& rows, BoostingLoss loss, const std::vector<double>& outputs,
                   const std::vector<double>& probabilities, std::size_t n_outputs, std::size_t output,
                   std::vector<Derivatives>& derivatives) {
  for (std::size_t j = 0; j < rows.n_rows; ++j) {
    const double w = rows.weights[j], y = rows.target[j];
    if (loss == BoostingLoss::kSquared) {
      derivatives[j] = derivatives_of(w * (outputs[j] - y), w);
    } else if (loss == BoostingLoss::kGamma) {
      const double ratio = y * std::exp(-outputs[j]);
      derivatives[j] = derivatives_of(w * (1.0 - ratio), w * ratio);
    } else {
      const double p = probabilities[j * n_outputs + output];
      const bool is_own = n_outputs == 1 ? y == 1.0 : y == static_cast<double>(output);
      derivatives[j] = derivatives_of(w * (p - (is_own ? 1.0 : 0.0)), w * p * (1.0 - p));
    }
  }
}

void compute_probabilities(const std::vector<double>& outputs, std::size_t n_outputs, std::vector<double>& probabilities) {
  if (n_outputs == 1) {
    for (std::size_t j = 0; j < outputs.size(); ++j) probabilities[j] = 1.0 / (1.0 + std::exp(-outputs[j]));
    return;
  }
  for (std::size_t j = 0; j < outputs.size(); j += n_outputs) {
    const double most = *std::max_element(outputs.begin() + static_cast<std::ptrdiff_t>(j),
                                          outputs.begin() + static_cast<std::ptrdiff_t>(j + n_outputs));
    double sum = 0.0;
    for (std::size_t k = j; k < j + n_outputs; ++k) sum += probabilities[k] = std::exp(outputs[k] - most);
    for (std::size_t k = j; k < j + n_outputs; ++k) probabilities[k] /= sum;
  }
}

}  // namespace

std::size_t boost(const BoostingRows& rows, const BoostingOptions& options, const double* baseline, std::size_t n_outputs,
                  const std::function<bool(std::size_t)>& proceed, const GrownNodes& nodes) {
  const BinnedRows binned(rows, options.n_bins, proceed);
  if (!binned.is_complete) return 0;
  TreeGrower grower(binned, options);
  std::vector<double> outputs(rows.n_rows * n_outputs), probabilities;
  for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i] = baseline[i % n_outputs];
  if (options.loss == BoostingLoss::kLogistic) probabilities.resize(outputs.size());
  std::size_t n_nodes = 0;
  for (std::size_t round = 0; round < options.n_rounds; ++round) {
    if (options.loss == BoostingLoss::kLogistic) compute_probabilities(outputs, n_outputs, probabilities);
    for (std::size_t k = 0; k < n_outputs; ++k) {
      if (!proceed(round * n_outputs + k)) return 0;
      differentiate(rows, options.loss, outputs, probabilities, n_outputs, k, grower.derivatives());
      nodes.roots[round * n_outputs + k] = static_cast<std::int32_t>(n_nodes);
      n_nodes = grower.grow(n_nodes, nodes, outputs.data() + k, n_outputs);
    }
  }
  return n_nodes;
}

void add_trees(const TreeNodes& nodes, const std::int32_t* roots, const std::size_t* ends, std::size_t n_ends,
               std::size_t n_outputs, const double* X, std::size_t n_rows, std::size_t n_columns, double* outputs) {
  for (std::size_t begin = 0; begin < n_rows; begin += kBlock) {
    const std::size_t end = std::min(n_rows, begin + kBlock);
    for (std::size_t k = 0; k < n_outputs; ++k) {
      double sums[kBlock] = {};
      std::size_t round = 0;
      for (std::size_t e = 0; e < n_ends; ++e) {
        for (; round < ends[e]; ++round) {
          const std::size_t root = static_cast<std::size_t>(roots[round * n_outputs + k]);
          for (std::size_t j = begin; j < end; j += kTogether) {
            const std::size_t some = std::min(kTogether, end - j);
            std::size_t places[kTogether];
            std::fill(places, places + some, root);
            // A leaf is its own child: rows that have arrived stay there.
            for (bool is_moving = true; is_moving;) {
              is_moving = false;
              for (std::size_t i = 0; i < some; ++i) {
                const std::size_t node = places[i], column = static_cast<std::size_t>(nodes.columns[node]);
                const bool missing_second = column >= n_columns;
                const double value = X[(j + i) * n_columns + (missing_second ? column - n_columns : column)];
                const bool is_second = (value > nodes.thresholds[node]) | (missing_second & std::isnan(value));
                places[i] = static_cast<std::size_t>(nodes.children[2 * node + is_second]);
                is_moving |= places[i] != node;
              }
            }
            for (std::size_t i = 0; i < some; ++i) sums[j + i - begin] += nodes.values[places[i]];
          }
        }
        for (std::size_t j = begin; j < end; ++j) outputs[(j * n_ends + e) * n_outputs + k] += sums[j - begin];
      }
    }
  }
}

}  // namespace dconnet
