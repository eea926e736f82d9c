#include "objective.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <type_traits>

#include "dispatch.hpp"

namespace dconnet {

namespace {

constexpr std::size_t kTile = 64;  // rows
constexpr std::size_t kBlock = 4;  // outputs that share the loads of a group of neurons

template <std::size_t Value>
using Count = std::integral_constant<std::size_t, Value>;

// Rows or columns that share the loads of some groups of neurons: as many as let the sums of three groups fill three
// quarters of the registers, of which there are twice as many with vectors of eight.
template <typename Vector>
constexpr std::size_t kTogether = kIn<Vector> == 8 ? 8 : 4;

// Neurons that are worked on together, of which each vector holds a group.
template <typename Of, std::size_t Number>
struct Groups {
  using Vector = Of;
  static constexpr std::size_t kNumber = Number;
};

// Calls body with groups of neurons and the first of these neurons, until all are done. The width is a whole number of
// groups, or half a one is left.
template <typename Vector, typename Body>
DCONNET_INLINE void in_groups(std::size_t width, const Body& body) {
  std::size_t l = 0;
  for (; width - l >= 5 * kIn<Vector>; l += 3 * kIn<Vector>) body(Groups<Vector, 3>{}, l);
  switch ((width - l) / kIn<Vector>) {
    case 4: body(Groups<Vector, 2>{}, l), body(Groups<Vector, 2>{}, l + 2 * kIn<Vector>); break;
    case 3: body(Groups<Vector, 3>{}, l); break;
    case 2: body(Groups<Vector, 2>{}, l); break;
    case 1: body(Groups<Vector, 1>{}, l); break;
  }
  if (kIn<Vector> > kLanes && width % kIn<Vector> != 0) body(Groups<Lanes, 1>{}, width - kLanes);
}

// Z = Q V' for a few rows and groups of neurons. The first column sets the sums, because clearing them would cost as much as a
// column. The rows after these are fetched meanwhile: the processor does not see that they come next.
template <std::size_t Rows, typename Neurons>
DCONNET_INLINE void forward_block(const double* Q, std::size_t columns, std::size_t stride, const double* V,
                                  std::size_t width, double* Z) {
  Block<typename Neurons::Vector, Rows, Neurons::kNumber> sums;
  sums.set_products([&](std::size_t i) DCONNET_ALWAYS_INLINE { return Q[i * stride]; }, V);
  sums.add_products(1, columns, [&](std::size_t i, std::size_t k) DCONNET_ALWAYS_INLINE { return Q[i * stride + k]; },
                    [&](std::size_t k) DCONNET_ALWAYS_INLINE {
                      __builtin_prefetch(Q + Rows * stride + k * Rows);
                      return V + k * width;
                    });
  sums.store(Z, width);
}

// So many rows at a time, and fewer at the end.
template <typename Vector, std::size_t Rows>
DCONNET_INLINE void forward_rows(const double* Q, std::size_t rows, std::size_t columns, std::size_t stride,
                                 const double* V, std::size_t width, double* Z) {
  std::size_t j = 0;
  for (; j + Rows <= rows; j += Rows) {
    in_groups<Vector>(width, [&](auto neurons, std::size_t l) DCONNET_ALWAYS_INLINE {
      forward_block<Rows, decltype(neurons)>(Q + j * stride, columns, stride, V + l, width, Z + j * width + l);
    });
  }
  if constexpr (Rows > 1) {
    if (j < rows) {
      forward_rows<Vector, Rows / 2>(Q + j * stride, rows - j, columns, stride, V, width, Z + j * width);
    }
  }
}

// Preactivations Z (rows, width) of all neurons.
template <typename Vector>
DCONNET_INLINE void forward(const double* Q, std::size_t rows, std::size_t columns, std::size_t stride, const double* V,
                            std::size_t width, double* Z) {
  forward_rows<Vector, kTogether<Vector>>(Q, rows, columns, stride, V, width, Z);
}

// Adds Qᵀ C to G for some columns and groups of neurons.
template <std::size_t Columns, typename Neurons>
DCONNET_INLINE void backward_block(const double* Q, std::size_t rows, std::size_t stride, const double* C,
                                   std::size_t width, double* G) {
  Block<typename Neurons::Vector, Columns, Neurons::kNumber> sums;
  sums.load(G, width);
  sums.add_products(0, rows, [&](std::size_t k, std::size_t j) DCONNET_ALWAYS_INLINE { return Q[j * stride + k]; },
                    [&](std::size_t j) DCONNET_ALWAYS_INLINE { return C + j * width; });
  sums.store(G, width);
}

// So many columns at a time, and at the end four: the stride is a whole number of lanes.
template <typename Vector>
DCONNET_INLINE void backward(const double* Q, std::size_t rows, std::size_t stride, const double* C, std::size_t width,
                             double* G) {
  const auto columns = [&](auto count, std::size_t k) DCONNET_ALWAYS_INLINE {
    in_groups<Vector>(width, [&](auto neurons, std::size_t l) DCONNET_ALWAYS_INLINE {
      backward_block<count.value, decltype(neurons)>(Q + k, rows, stride, C + l, width, G + k * width + l);
    });
  };
  std::size_t k = 0;
  for (; k + kTogether<Vector> <= stride; k += kTogether<Vector>) columns(Count<kTogether<Vector>>{}, k);
  if (k < stride) columns(Count<kLanes>{}, k);
}

DCONNET_INLINE void positive_part(Lanes& part, const Lanes& z) { part = z > 0.0 ? z : Lanes{}; }

// Residuals of some rows in a few of their outputs, from their preactivations; returns the squares with theirs added.
template <std::size_t Rows, std::size_t Outputs>
DCONNET_INLINE double block_residuals(const double* Z, const double* y, const double* alpha, std::size_t width,
                                      std::size_t n_outputs, double squares, double* residual) {
  Lanes sum[Rows][Outputs] = {}, z[Rows], a;
  for (std::size_t l = 0; l < width; l += kLanes) {
#pragma GCC unroll 8
    for (std::size_t j = 0; j < Rows; ++j) {
      load(z[j], Z + j * width + l);
      positive_part(z[j], z[j]);
    }
#pragma GCC unroll 8
    for (std::size_t o = 0; o < Outputs; ++o) {
      load(a, alpha + o * width + l);
#pragma GCC unroll 8
      for (std::size_t j = 0; j < Rows; ++j) sum[j][o] += a * z[j];
    }
  }
#pragma GCC unroll 8
  for (std::size_t j = 0; j < Rows; ++j) {
#pragma GCC unroll 8
    for (std::size_t o = 0; o < Outputs; ++o) {
      const std::size_t at = j * n_outputs + o;
      residual[at] = y[at] - sum_of(sum[j][o]);
      squares += residual[at] * residual[at];
    }
  }
  return squares;
}

// The same for any number of rows. A few at a time, whose sums need not wait for each other.
template <std::size_t Outputs>
DCONNET_INLINE double residuals_of(const double* Z, const double* y, const double* alpha, std::size_t rows,
                                   std::size_t width, std::size_t n_outputs, double* residual) {
  constexpr std::size_t kRows = 8 / Outputs;
  double squares = 0.0;
  std::size_t j = 0;
  for (; j + kRows <= rows; j += kRows) {
    squares = block_residuals<kRows, Outputs>(Z + j * width, y + j * n_outputs, alpha, width, n_outputs, squares,
                                              residual + j * n_outputs);
  }
  for (; j < rows; ++j) {
    squares = block_residuals<1, Outputs>(Z + j * width, y + j * n_outputs, alpha, width, n_outputs, squares,
                                          residual + j * n_outputs);
  }
  return squares;
}

// Slopes of F in the preactivations by way of a few outputs, and what the rows add to its gradient in their weights.
// The slopes are added to those of the outputs before, if there are any.
template <std::size_t Outputs>
DCONNET_INLINE void slopes_of(const double* Z, const double* residual, const double* alpha, std::size_t rows,
                              std::size_t width, std::size_t n_outputs, bool are_first, double* C,
                              double* alpha_gradient) {
  for (std::size_t l = 0; l < width; l += kLanes) {
    Lanes a[Outputs], sum[Outputs];
#pragma GCC unroll 8
    for (std::size_t o = 0; o < Outputs; ++o) {
      load(a[o], alpha + o * width + l);
      load(sum[o], alpha_gradient + o * width + l);
    }
    for (std::size_t j = 0; j < rows; ++j) {
      Lanes z, positive, slope, before = {};
      load(z, Z + j * width + l);
      positive_part(positive, z);
#pragma GCC unroll 8
      for (std::size_t o = 0; o < Outputs; ++o) {
        const double pull = -2.0 * residual[j * n_outputs + o];
        if (o == 0) slope = pull * a[o];
        else slope += pull * a[o];
        sum[o] += pull * positive;
      }
      if (!are_first) {
        load(before, C + j * width + l);
        slope += before;
      }
      store(C + j * width + l, z > 0.0 ? slope : Lanes{});
    }
#pragma GCC unroll 8
    for (std::size_t o = 0; o < Outputs; ++o) store(alpha_gradient + o * width + l, sum[o]);
  }
}

// Calls body with the size of a block of outputs, as a type, and its first output: the outputs of a block share the
// loads of the preactivations.
template <typename Body>
DCONNET_INLINE void in_blocks(std::size_t n_outputs, const Body& body) {
  std::size_t o = 0;
  for (; o + kBlock <= n_outputs; o += kBlock) body(Count<kBlock>{}, o);
  switch (n_outputs - o) {
    case 3: return body(Count<3>{}, o);
    case 2: return body(Count<2>{}, o);
    case 1: return body(Count<1>{}, o);
  }
}

// Both for all outputs. A single output is a constant for the compiler.
DCONNET_INLINE double residuals(const double* Z, const double* y, const double* alpha, std::size_t rows,
                                std::size_t width, std::size_t n_outputs, double* residual) {
  if (n_outputs == 1) return residuals_of<1>(Z, y, alpha, rows, width, 1, residual);
  double squares = 0.0;
  in_blocks(n_outputs, [&](auto count, std::size_t o) DCONNET_ALWAYS_INLINE {
    squares += residuals_of<count.value>(Z, y + o, alpha + o * width, rows, width, n_outputs, residual + o);
  });
  return squares;
}

DCONNET_INLINE void slopes(const double* Z, const double* residual, const double* alpha, std::size_t rows,
                           std::size_t width, std::size_t n_outputs, double* C, double* alpha_gradient) {
  if (n_outputs == 1) return slopes_of<1>(Z, residual, alpha, rows, width, 1, true, C, alpha_gradient);
  in_blocks(n_outputs, [&](auto count, std::size_t o) DCONNET_ALWAYS_INLINE {
    slopes_of<count.value>(Z, residual + o, alpha + o * width, rows, width, n_outputs, o == 0, C,
                           alpha_gradient + o * width);
  });
}

// Of the targets, leaf by leaf.
double sum_of_squares(const double* y, std::size_t rows, std::size_t n_outputs) {
  const Leaves leaves{rows};
  LeafSums sums(leaves.count(), 1);
  for (std::size_t i = 0; i < leaves.count(); ++i) {
    const double* part = y + leaves[i].first * n_outputs;
    *sums.part(i) = dot(part, part, leaves[i].count * n_outputs);
  }
  double total;
  sums.merge(&total);
  return total;
}

}  // namespace

Objective::Objective(const Design& design, const double* y, double gamma, std::size_t n_hidden, std::size_t n_outputs,
                     Team& team)
    : Evaluations(Layout(design.columns(), n_hidden, n_outputs), gamma, design.rows(),
                  sum_of_squares(y, design.rows(), n_outputs)),
      design_(design),
      y_(y),
      leaves_{design.rows()},
      team_(team),
      tiles_(team.size(), Tile(layout())),
      squares_(leaves_.count(), answer_size(Ask::kValue, layout())),
      outputs_(leaves_.count(), answer_size(Ask::kOutputs, layout())),
      gradients_(leaves_.count(), answer_size(Ask::kGradient, layout())),
      others_(0, 0) {}

Objective::Tile::Tile(const Layout& layout)
    : outputs(kTile * layout.width), back(kTile * layout.width), residual(kTile * layout.n_outputs) {}

// Calls body(tile, first row, rows) for all tiles of a leaf, after their preactivations.
template <typename Body>
void Objective::in_tiles(const double* theta, std::size_t leaf, std::size_t thread, const Body& body) {
  Tile& tile = tiles_[thread];
  const Leaf rows = leaves_[leaf];
  for (std::size_t first = rows.first; first < rows.first + rows.count; first += kTile) {
    const std::size_t count = std::min(kTile, rows.first + rows.count - first);
    fastest<forward<Two>, forward<Lanes>, forward<Eight>>(design_.row(first), count, layout().columns, layout().stride,
                                                          theta, layout().width, tile.outputs.data());
    body(tile, first, count);
  }
}

// Of the rows of a tile, with the sum of their squares.
double Objective::residuals_of(Tile& tile, const double* theta, std::size_t first, std::size_t count) {
  const std::size_t n_outputs = layout().n_outputs;
  return fastest<residuals>(tile.outputs.data(), y_ + first * n_outputs, layout().alpha(theta), count, layout().width,
                            n_outputs, tile.residual.data());
}

LeafSums& Objective::leaf_sums(Ask ask, const double* input, std::size_t directions) {
  switch (ask) {
    case Ask::kGradient: sum_gradients(input); return gradients_;
    case Ask::kValue: sum_squares(input, nullptr); return squares_;
    case Ask::kOutputs: sum_outputs(input); return outputs_;
    case Ask::kMoments: sum_moments(input); return others_;
    case Ask::kMatches: sum_matches(input, input + layout().size(), directions); return others_;
  }
  return others_;
}

void Objective::sum_gradients(const double* theta) {
  team_.run(leaves_.count(), [&](std::size_t leaf, std::size_t thread) {
    double* slopes_here = gradients_.clear(leaf);
    double& squares = slopes_here[layout().size()];
    in_tiles(theta, leaf, thread, [&](Tile& tile, std::size_t first, std::size_t count) {
      squares += residuals_of(tile, theta, first, count);
      fastest<slopes>(tile.outputs.data(), tile.residual.data(), layout().alpha(theta), count, layout().width,
                      layout().n_outputs, tile.back.data(), layout().alpha(slopes_here));
      fastest<backward<Two>, backward<Lanes>, backward<Eight>>(design_.row(first), count, layout().stride,
                                                               tile.back.data(), layout().width, slopes_here);
    });
  });
}

void Objective::sum_squares(const double* theta, double* residual) {
  const std::size_t n_outputs = layout().n_outputs;
  team_.run(leaves_.count(), [&](std::size_t leaf, std::size_t thread) {
    double& squares = *squares_.clear(leaf);
    in_tiles(theta, leaf, thread, [&](Tile& tile, std::size_t first, std::size_t count) {
      squares += residuals_of(tile, theta, first, count);
      if (residual) std::copy_n(tile.residual.data(), count * n_outputs, residual + first * n_outputs);
    });
  });
}

void Objective::sum_outputs(const double* theta) {
  const std::size_t n_outputs = layout().n_outputs;
  team_.run(leaves_.count(), [&](std::size_t leaf, std::size_t thread) {
    double* sums = outputs_.clear(leaf);
    in_tiles(theta, leaf, thread, [&](Tile& tile, std::size_t first, std::size_t count) {
      residuals_of(tile, theta, first, count);
      const double* y = y_ + first * n_outputs;
      for (std::size_t i = 0; i < count * n_outputs; ++i) {
        const double output = y[i] - tile.residual[i];
        sums[0] += output * y[i];
        sums[1] += output * output;
      }
    });
  });
}

void Objective::sum_moments(const double* theta) {
  const std::size_t width = layout().width, n_outputs = layout().n_outputs;
  others_ = LeafSums(leaves_.count(), answer_size(Ask::kMoments, layout()));  // there may be thousands of neurons
  const std::vector<double> weights(kTile, 1.0);
  std::vector<Row> all(kTile);
  std::iota(all.begin(), all.end(), Row{0});
  team_.run(leaves_.count(), [&](std::size_t leaf, std::size_t thread) {
    double* gram = others_.clear(leaf);
    double* moments = gram + width * width;
    in_tiles(theta, leaf, thread, [&](Tile& tile, std::size_t first, std::size_t count) {
      for (std::size_t i = 0; i < count * width; ++i) tile.outputs[i] = std::max(tile.outputs[i], 0.0);
      const Design outputs = Design::view(tile.outputs.data(), count, layout().n_hidden);
      outputs.add_gram(all.data(), weights.data(), count, gram);
      for (std::size_t j = 0; j < count; ++j) {
        const double* y = y_ + (first + j) * n_outputs;
        for (std::size_t o = 0; o < n_outputs; ++o) outputs.add_row(j, y[o], moments + o * width);
      }
    });
  });
}

void Objective::know_residual(const double* theta) {
  if (std::equal(theta, theta + layout().size(), residual_theta_.begin(), residual_theta_.end())) return;
  residual_.resize(design_.rows() * layout().n_outputs);
  sum_squares(theta, residual_.data());
  residual_theta_.assign(theta, theta + layout().size());
}

void Objective::sum_matches(const double* theta, const double* directions, std::size_t count) {
  const std::size_t n_outputs = layout().n_outputs, stride = layout().stride, size = answer_size(Ask::kMatches, layout());
  know_residual(theta);
  others_ = LeafSums(leaves_.count(), count * size);
  team_.run(leaves_.count(), [&](std::size_t leaf, std::size_t thread) {
    double* sums = others_.clear(leaf);
    double* active = tiles_[thread].outputs.data();  // there is room for a tile of at least one neuron
    double* weights = tiles_[thread].back.data();
    const Leaf rows = leaves_[leaf];
    for (std::size_t first = rows.first; first < rows.end(); first += kTile) {
      const std::size_t tile = std::min(kTile, rows.end() - first);
      const double* residual = residual_.data() + first * n_outputs;
      for (std::size_t i = 0; i < count; ++i) {
        double* of_direction = sums + i * size;
        multiply(design_.row(first), tile, stride, directions + i * stride, active);
        for (std::size_t j = 0; j < tile; ++j) {
          active[j] = std::max(active[j], 0.0);
          of_direction[n_outputs] += active[j] * active[j];
        }
        for (std::size_t o = 0; o < n_outputs; ++o) {
          for (std::size_t j = 0; j < tile; ++j) {
            of_direction[o] += residual[j * n_outputs + o] * active[j];
            weights[j] = active[j] > 0.0 ? residual[j * n_outputs + o] : 0.0;
          }
          add_transposed(design_.row(first), tile, stride, weights, of_direction + n_outputs + 1 + o * stride);
        }
      }
    }
  });
}

void Objective::copy_rows(const std::size_t* rows, std::size_t count, double* design, double* y) {
  const std::size_t stride = design_.stride(), n_outputs = layout().n_outputs;
  for (std::size_t i = 0; i < count; ++i) {
    std::copy_n(design_.row(rows[i]), stride, design + i * stride);
    std::copy_n(y_ + rows[i] * n_outputs, n_outputs, y + i * n_outputs);
  }
}

}  // namespace dconnet
