// Gradient boosting: sums of regression trees, each fitted to the gradient of a loss by histograms of binned columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace dconnet {

enum class BoostingLoss {
  kSquared,  // half the squared error
  kGamma,    // deviance of positive targets, whose logarithm is the output
  kLogistic  // log loss: of two classes with one output, the log-odds of the second class; of several by the softmax
};

struct BoostingOptions {
  BoostingLoss loss = BoostingLoss::kSquared;
  std::size_t n_rounds = 100;
  std::size_t n_leaves = 15;
  std::size_t max_depth = 8;
  std::size_t min_leaf = 20;      // rows
  std::size_t n_bins = 255;       // of a column, without that of missing values; at most 255
  double learning_rate = 0.1;
  double leaf_penalty = 1.0;      // on the square of the value of a leaf
};

// Nodes of all trees. A node sends a row to its first child if the value in its column is at most the threshold. A node whose
// column is raised by the number of columns sends missing values to the second child, others to the first. Children come
// after their parents, and a leaf is its own child.
struct TreeNodes {
  const std::int32_t* columns;
  const double* thresholds;
  const std::int32_t* children;  // (n_nodes, 2)
  const double* values;
};

struct GrownNodes {
  std::int32_t* columns;
  double* thresholds;
  std::int32_t* children;
  double* values;
  std::int32_t* roots;  // (n_rounds, n_outputs)
};

// Training rows: X of shape (n_rows, n_columns), NaN where a value is missing.
struct BoostingRows {
  const double* X;
  std::size_t n_rows, n_columns;
  const double* target;   // numbers, or classes from zero on
  const double* weights;
};

// Grows n_rounds trees for each output, which begin at the baseline (n_outputs), and returns the number of nodes:
// at most n_rounds * n_outputs * (2 * n_leaves - 1). Before each tree, and from time to time before the first, proceed receives
// the number of finished trees; if it returns false, the result is zero.
std::size_t boost(const BoostingRows& rows, const BoostingOptions& options, const double* baseline, std::size_t n_outputs,
                  const std::function<bool(std::size_t)>& proceed, const GrownNodes& nodes);

// Adds to outputs (n_rows, n_ends, n_outputs) the values of the trees of the first ends[i] rounds; ends ascend.
void add_trees(const TreeNodes& nodes, const std::int32_t* roots, const std::size_t* ends, std::size_t n_ends,
               std::size_t n_outputs, const double* X, std::size_t n_rows, std::size_t n_columns, double* outputs);

}  // namespace dconnet
