#include "short_fit.hpp"

#include <algorithm>
#include <cmath>

#include "dense.hpp"
#include "dispatch.hpp"
#include "lbfgs.hpp"
#include "random.hpp"
#include "singles.hpp"

namespace dconnet {

namespace {

constexpr std::size_t kTile = 64;        // rows
constexpr std::size_t kTogether = 4;     // rows that share the loads and stores of a gradient
constexpr std::size_t kMostGroups = 8;   // groups of neurons whose sums fit into registers
constexpr std::size_t kSumTiles = 64;    // tiles whose sums are single; the sum of these is double
constexpr std::size_t kMemory = 10;

// What the passes over rows look at.
struct Pass {
  std::size_t features, linear, ramps;  // all, the first ones, and those after them; the rest are categories
  const std::uint32_t* places;
  const float* shares;
  const float *level, *slope, *intercept;
  float *level_gradient, *slope_gradient, *intercept_gradient;
  std::size_t width;
};

// Calls Step::run<groups> for runs of groups of neurons, as many at once as fit into registers.
template <typename Step, typename... Arguments>
DCONNET_INLINE void for_groups(std::size_t width, Arguments... arguments) {
  std::size_t first = 0;
  for (; first + kMostGroups * kSingles <= width; first += kMostGroups * kSingles) {
    Step::template run<kMostGroups>(first, arguments...);
  }
  switch ((width - first) / kSingles) {
    case 1: return Step::template run<1>(first, arguments...);
    case 2: return Step::template run<2>(first, arguments...);
    case 3: return Step::template run<3>(first, arguments...);
    case 4: return Step::template run<4>(first, arguments...);
    case 5: return Step::template run<5>(first, arguments...);
    case 6: return Step::template run<6>(first, arguments...);
    case 7: return Step::template run<7>(first, arguments...);
    default: return;
  }
}

// Z (rows, width), from the tables.
struct Forward {
  template <std::size_t Groups>
  DCONNET_INLINE static void run(std::size_t first, const Pass& pass, std::size_t begin, std::size_t count, float* Z) {
    const std::size_t width = pass.width;
    for (std::size_t j = 0; j < count; ++j) {
      const std::uint32_t* place = pass.places + (begin + j) * pass.features;
      const float* share = pass.shares + (begin + j) * pass.features;
      Singles sum[Groups], row[Groups];
#pragma GCC unroll 8
      for (std::size_t g = 0; g < Groups; ++g) load(sum[g], pass.intercept + first + g * kSingles);
      std::size_t f = 0;
      for (; f < pass.linear; ++f) {  // whose places are the first
        const float* slope = pass.slope + f * width + first;
#pragma GCC unroll 8
        for (std::size_t g = 0; g < Groups; ++g) {
          load(row[g], slope + g * kSingles);
          sum[g] += share[f] * row[g];
        }
      }
      for (; f < pass.linear + pass.ramps; ++f) {
        const float* slope = pass.slope + place[f] * width + first;
        const float* level = pass.level + place[f] * width + first;
#pragma GCC unroll 8
        for (std::size_t g = 0; g < Groups; ++g) {
          load(row[g], slope + g * kSingles);
          sum[g] += share[f] * row[g];
          load(row[g], level + g * kSingles);
          sum[g] += row[g];
        }
      }
      for (; f < pass.features; ++f) {
        const float* level = pass.level + place[f] * width + first;
#pragma GCC unroll 8
        for (std::size_t g = 0; g < Groups; ++g) {
          load(row[g], level + g * kSingles);
          sum[g] += row[g];
        }
      }
#pragma GCC unroll 8
      for (std::size_t g = 0; g < Groups; ++g) store(Z + j * width + first + g * kSingles, sum[g]);
    }
  }
};

// Adds what some rows with slopes C (rows, width) contribute to the gradients of the tables.
struct Backward {
  template <std::size_t Groups>
  DCONNET_INLINE static void run(std::size_t first, const Pass& pass, std::size_t begin, std::size_t count, const float* C) {
    std::size_t j = 0;
    for (; j + kTogether <= count; j += kTogether) linear<Groups, kTogether>(first, pass, begin + j, C + j * pass.width);
    for (; j < count; ++j) linear<Groups, 1>(first, pass, begin + j, C + j * pass.width);
    for (j = 0; j < count; ++j) coded<Groups>(first, pass, begin + j, C + j * pass.width);
  }

  // The intercept and the linear features: all rows meet the same row of the table.
  template <std::size_t Groups, std::size_t Rows>
  DCONNET_INLINE static void linear(std::size_t first, const Pass& pass, std::size_t begin, const float* C) {
    const float* share = pass.shares + begin * pass.features;
    float ones[Rows];
    std::fill(ones, ones + Rows, 1.0f);
    add_rows<Groups, Rows>(ones, 1, C + first, pass.width, pass.intercept_gradient + first);
    for (std::size_t f = 0; f < pass.linear; ++f) {
      add_rows<Groups, Rows>(share + f, pass.features, C + first, pass.width, pass.slope_gradient + f * pass.width + first);
    }
  }

  template <std::size_t Groups, std::size_t Rows>
  DCONNET_INLINE static void add_rows(const float* shares, std::size_t step, const float* C, std::size_t width, float* sums) {
    Singles share[Rows];
#pragma GCC unroll 8
    for (std::size_t i = 0; i < Rows; ++i) share[i] = shares[i * step] + Singles{};
#pragma GCC unroll 8
    for (std::size_t g = 0; g < Groups; ++g) {
      Singles c, sum;
      load(sum, sums + g * kSingles);
#pragma GCC unroll 8
      for (std::size_t i = 0; i < Rows; ++i) {
        load(c, C + i * width + g * kSingles);
        sum += share[i] * c;
      }
      store(sums + g * kSingles, sum);
    }
  }

  template <std::size_t Groups>
  DCONNET_INLINE static void coded(std::size_t first, const Pass& pass, std::size_t row, const float* C) {
    const std::uint32_t* place = pass.places + row * pass.features;
    const float* share = pass.shares + row * pass.features;
    Singles c[Groups], sum;
#pragma GCC unroll 8
    for (std::size_t g = 0; g < Groups; ++g) load(c[g], C + first + g * kSingles);
    std::size_t f = pass.linear;
    for (; f < pass.linear + pass.ramps; ++f) {
      float* slope = pass.slope_gradient + place[f] * pass.width + first;
      float* level = pass.level_gradient + place[f] * pass.width + first;
#pragma GCC unroll 8
      for (std::size_t g = 0; g < Groups; ++g) {
        load(sum, slope + g * kSingles);
        sum += share[f] * c[g];
        store(slope + g * kSingles, sum);
        load(sum, level + g * kSingles);
        sum += c[g];
        store(level + g * kSingles, sum);
      }
    }
    for (; f < pass.features; ++f) {
      float* level = pass.level_gradient + place[f] * pass.width + first;
#pragma GCC unroll 8
      for (std::size_t g = 0; g < Groups; ++g) {
        load(sum, level + g * kSingles);
        sum += c[g];
        store(level + g * kSingles, sum);
      }
    }
  }
};

DCONNET_INLINE void forward(const Pass& pass, std::size_t begin, std::size_t count, float* Z) {
  for_groups<Forward, const Pass&, std::size_t, std::size_t, float*>(pass.width, pass, begin, count, Z);
}

DCONNET_INLINE void backward(const Pass& pass, std::size_t begin, std::size_t count, const float* C) {
  for_groups<Backward, const Pass&, std::size_t, std::size_t, const float*>(pass.width, pass, begin, count, C);
}

DCONNET_INLINE void positive_part(Singles& part, const Singles& z) { part = z > 0.0f ? z : Singles{}; }

// Outputs of some rows, from their preactivations.
DCONNET_INLINE void combine(const float* Z, const float* alpha, std::size_t rows, std::size_t width, float* outputs) {
  for (std::size_t j = 0; j < rows; ++j) {
    Singles sum = {};
    for (std::size_t l = 0; l < width; l += kSingles) {
      Singles z, a;
      load(z, Z + j * width + l);
      load(a, alpha + l);
      positive_part(z, z);
      sum += a * z;
    }
    outputs[j] = sum_of(sum);
  }
}

// Slopes of F in the preactivations, from those in the outputs, and what the rows add to its gradient in alpha.
DCONNET_INLINE void slopes(const float* Z, const float* pull, const float* alpha, std::size_t rows, std::size_t width,
                           float* C, float* alpha_gradient) {
  for (std::size_t l = 0; l < width; l += kSingles) {
    Singles a, sum;
    load(a, alpha + l);
    load(sum, alpha_gradient + l);
    for (std::size_t j = 0; j < rows; ++j) {
      Singles z;
      load(z, Z + j * width + l);
      const Singles slope = pull[j] * a;
      store(C + j * width + l, z > 0.0f ? slope : Singles{});
      positive_part(z, z);
      sum += pull[j] * z;
    }
    store(alpha_gradient + l, sum);
  }
}

// U += B V' for some rows of B, or V' gradient += Bᵀ G.
struct WhiteToColumns {
  template <std::size_t Groups>
  DCONNET_INLINE static void run(std::size_t first, const float* B, const std::size_t* begins, std::size_t rows,
                                 std::size_t rank, const float* V, std::size_t width, float* U) {
    for (std::size_t i = 0; i < rows; ++i) {
      Singles sum[Groups] = {}, v;
      for (std::size_t k = begins[i]; k < rank; ++k) {
        const float b = B[i * rank + k];
#pragma GCC unroll 8
        for (std::size_t g = 0; g < Groups; ++g) {
          load(v, V + k * width + first + g * kSingles);
          sum[g] += b * v;
        }
      }
#pragma GCC unroll 8
      for (std::size_t g = 0; g < Groups; ++g) store(U + i * width + first + g * kSingles, sum[g]);
    }
  }
};

struct ColumnsToWhite {
  template <std::size_t Groups>
  DCONNET_INLINE static void run(std::size_t first, const float* B, const std::size_t* begins, std::size_t rows,
                                 std::size_t rank, const float* G, std::size_t width, float* V) {
    for (std::size_t k = 0; k < rank; ++k) {
      Singles sum[Groups] = {}, u;
      for (std::size_t i = 0; i < rows; ++i) {
        if (begins[i] > k) continue;
        const float b = B[i * rank + k];
#pragma GCC unroll 8
        for (std::size_t g = 0; g < Groups; ++g) {
          load(u, G + i * width + first + g * kSingles);
          sum[g] += b * u;
        }
      }
#pragma GCC unroll 8
      for (std::size_t g = 0; g < Groups; ++g) store(V + k * width + first + g * kSingles, sum[g]);
    }
  }
};

DCONNET_INLINE void white_to_columns(const float* B, const std::size_t* begins, std::size_t rows, std::size_t rank,
                             const float* V, std::size_t width, float* U) {
  for_groups<WhiteToColumns>(width, B, begins, rows, rank, V, width, U);
}

DCONNET_INLINE void columns_to_white(const float* B, const std::size_t* begins, std::size_t rows, std::size_t rank,
                                        const float* G, std::size_t width, float* V) {
  for_groups<ColumnsToWhite>(width, B, begins, rows, rank, G, width, V);
}

DCONNET_INLINE void add(const float* from, std::size_t n, double* to) {
  for (std::size_t i = 0; i < n; ++i) to[i] += static_cast<double>(from[i]);
}

std::size_t count(const CodedRows& rows, CodedFeature::Kind kind) {
  return static_cast<std::size_t>(std::count_if(rows.features.begin(), rows.features.end(),
                                                [kind](const CodedFeature& feature) { return feature.kind == kind; }));
}

}  // namespace

std::size_t CodedRows::columns() const {
  std::size_t sum = 1;
  for (const CodedFeature& feature : features) sum += feature.columns;
  return sum;
}

CodedObjective::CodedObjective(const CodedRows& rows, const double* from_white, std::size_t rank, const double* weights,
                               std::size_t n_hidden)
    : rows_(rows),
      given_weights_(weights),
      rank_(rank),
      width_(round_up_to_singles(n_hidden)),
      from_white_(from_white, from_white + rows.columns() * rank),
      begins_(rows.columns(), rank),
      weights_(weights, weights + rows.rows),
      y_(rows.rows),
      layout_(rank, n_hidden),
      white_(rank * width_),
      alpha_(2 * width_),
      columns_(rows.columns() * width_),
      preactivations_(kTile * width_),
      back_(kTile * width_),
      residual_(kTile),
      above_(width_) {
  for (std::size_t i = 0; i < begins_.size(); ++i) {
    const float* row = from_white_.data() + i * rank;
    begins_[i] = static_cast<std::size_t>(std::find_if(row, row + rank, [](float b) { return b != 0.0f; }) - row);
  }
  std::size_t places = 0, columns = 0;
  for (const CodedFeature& feature : rows.features) {
    first_place_.push_back(places);
    first_column_.push_back(columns);
    places += feature.places;
    columns += feature.columns;
  }
  level_.resize(places * width_);
  slope_.resize(places * width_);
  // One more row: that of the intercept; and for the slopes that of alpha.
  level_gradient_.resize((places + 1) * width_);
  slope_gradient_.resize((places + 1) * width_);
  level_sum_.resize(level_gradient_.size());
  slope_sum_.resize(slope_gradient_.size());
}

void CodedObjective::pose(const double* y, double gamma) {
  std::copy(y, y + rows_.rows, y_.begin());
  gamma_ = gamma;
}

// The weights of all places, from those in whitened coordinates.
void CodedObjective::tabulate(const double* theta) {
  for (std::size_t k = 0; k < rank_; ++k) {
    for (std::size_t l = 0; l < layout_.n_hidden; ++l) {
      white_[k * width_ + l] = static_cast<float>(theta[k * layout_.width + l]);
    }
  }
  for (std::size_t l = 0; l < layout_.n_hidden; ++l) alpha_[l] = static_cast<float>(layout_.alpha(theta)[l]);
  fastest<white_to_columns>(from_white_.data(), begins_.data(), begins_.size(), rank_, white_.data(), width_, columns_.data());
  for (std::size_t f = 0; f < rows_.features.size(); ++f) {
    const CodedFeature& feature = rows_.features[f];
    const float* U = columns_.data() + first_column_[f] * width_;
    float* level = level_.data() + first_place_[f] * width_;
    float* slope = slope_.data() + first_place_[f] * width_;
    if (feature.kind == CodedFeature::Kind::kCategory) {
      std::copy(U, U + feature.columns * width_, level);
      continue;
    }
    std::copy(U, U + feature.columns * width_, slope);
    for (std::size_t i = width_; i < feature.columns * width_; ++i) level[i] = level[i - width_] + U[i - width_];
  }
}

double CodedObjective::gradient(const double* theta, double* gradient) {
  tabulate(theta);
  const std::size_t places = level_.size() / width_, linear = count(rows_, CodedFeature::Kind::kLinear);
  float* alpha_gradient = slope_gradient_.data() + places * width_;
  const Pass pass{rows_.features.size(), linear, count(rows_, CodedFeature::Kind::kRamps), rows_.places, rows_.shares,
                  level_.data(), slope_.data(), columns_.data() + (begins_.size() - 1) * width_,
                  level_gradient_.data(), slope_gradient_.data(), level_gradient_.data() + places * width_, width_};
  std::fill(level_sum_.begin(), level_sum_.end(), 0.0);
  std::fill(slope_sum_.begin(), slope_sum_.end(), 0.0);
  double squares = 0.0;
  for (std::size_t first = 0; first < rows_.rows; first += kTile * kSumTiles) {
    std::fill(level_gradient_.begin(), level_gradient_.end(), 0.0f);
    std::fill(slope_gradient_.begin(), slope_gradient_.end(), 0.0f);
    const std::size_t end = std::min(first + kTile * kSumTiles, rows_.rows);
    for (std::size_t begin = first; begin < end; begin += kTile) {
      const std::size_t some = std::min(kTile, end - begin);
      fastest<forward>(pass, begin, some, preactivations_.data());
      fastest<combine>(preactivations_.data(), alpha_.data(), some, width_, residual_.data());
      for (std::size_t j = 0; j < some; ++j) {
        const float residual = y_[begin + j] - residual_[j], weighted = weights_[begin + j] * residual;
        squares += static_cast<double>(weighted) * static_cast<double>(residual);
        residual_[j] = -2.0f * weighted;
      }
      fastest<slopes>(preactivations_.data(), residual_.data(), alpha_.data(), some, width_, back_.data(), alpha_gradient);
      fastest<backward>(pass, begin, some, back_.data());
    }
    fastest<add>(level_gradient_.data(), level_gradient_.size(), level_sum_.data());
    fastest<add>(slope_gradient_.data(), slope_gradient_.size(), slope_sum_.data());
  }
  gather(gradient);
  for (std::size_t i = 0; i < layout_.size(); ++i) gradient[i] += 2.0 * gamma_ * theta[i];
  return squares + gamma_ * dot(theta, theta, layout_.size());
}

// From the gradients of all places to that in whitened coordinates.
void CodedObjective::gather(double* gradient) {
  const std::size_t places = level_.size() / width_;
  for (std::size_t f = 0; f < rows_.features.size(); ++f) {
    const CodedFeature& feature = rows_.features[f];
    float* U = columns_.data() + first_column_[f] * width_;
    const double* level = level_sum_.data() + first_place_[f] * width_;
    const double* slope = slope_sum_.data() + first_place_[f] * width_;
    const bool is_category = feature.kind == CodedFeature::Kind::kCategory;
    std::fill(above_.begin(), above_.end(), 0.0);  // rows in the bins above have the whole ramp
    for (std::size_t k = feature.columns; k-- > 0;) {
      const double* own = is_category ? level + k * width_ : slope + k * width_;
      for (std::size_t l = 0; l < width_; ++l) {
        U[k * width_ + l] = static_cast<float>(is_category ? own[l] : own[l] + above_[l]);
        above_[l] += level[k * width_ + l];
      }
    }
  }
  float* intercept = columns_.data() + (begins_.size() - 1) * width_;
  for (std::size_t l = 0; l < width_; ++l) intercept[l] = static_cast<float>(level_sum_[places * width_ + l]);
  fastest<columns_to_white>(from_white_.data(), begins_.data(), begins_.size(), rank_, columns_.data(), width_,
                               white_.data());
  std::fill(gradient, gradient + layout_.size(), 0.0);
  for (std::size_t k = 0; k < rank_; ++k) {
    for (std::size_t l = 0; l < layout_.n_hidden; ++l) {
      gradient[k * layout_.width + l] = static_cast<double>(white_[k * width_ + l]);
    }
  }
  for (std::size_t l = 0; l < layout_.n_hidden; ++l) layout_.alpha(gradient)[l] = slope_sum_[places * width_ + l];
}

void CodedObjective::outputs(const double* theta, double* outputs) {
  tabulate(theta);
  const Pass pass{rows_.features.size(), count(rows_, CodedFeature::Kind::kLinear),
                  count(rows_, CodedFeature::Kind::kRamps), rows_.places, rows_.shares, level_.data(), slope_.data(),
                  columns_.data() + (begins_.size() - 1) * width_, nullptr, nullptr, nullptr, width_};
  for (std::size_t begin = 0; begin < rows_.rows; begin += kTile) {
    const std::size_t some = std::min(kTile, rows_.rows - begin);
    fastest<forward>(pass, begin, some, preactivations_.data());
    fastest<combine>(preactivations_.data(), alpha_.data(), some, width_, residual_.data());
    std::copy(residual_.begin(), residual_.begin() + static_cast<std::ptrdiff_t>(some), outputs + begin);
  }
}

// With the better sign.
void start_at_random(CodedObjective& objective, const double* y, std::uint64_t seed, double* V, double* alpha) {
  const Layout& layout = objective.layout();
  Random random(seed);
  std::vector<double> theta(layout.size()), outputs(objective.n_rows());
  for (std::size_t unit = 0; unit < layout.n_hidden; ++unit) {
    for (std::size_t k = 0; k < layout.columns; ++k) theta[k * layout.width + unit] = random.normal();
    layout.alpha(theta.data())[unit] = random.normal();
  }
  layout.balance(theta.data());
  objective.outputs(theta.data(), outputs.data());
  double product = 0.0, square = 0.0, target = 0.0;
  for (std::size_t j = 0; j < outputs.size(); ++j) {
    const double weight = objective.weights()[j];
    product += weight * outputs[j] * y[j];
    square += weight * outputs[j] * outputs[j];
    target += weight * y[j] * y[j];
  }
  const double factor = std::max(std::fabs(product) / square, 1e-3 * std::sqrt(target / square));
  const double root = std::sqrt(factor), sign = product < 0.0 ? -1.0 : 1.0;
  if (std::isnormal(root)) {
    for (std::size_t unit = 0; unit < layout.n_hidden; ++unit) layout.scale(theta.data(), unit, root, sign * root);
  }
  layout.unpack(theta.data(), V, alpha);
}

ShortFit fit_shortly(CodedObjective& objective, const double* y, double gamma, std::size_t evaluations,
                     const Proceed& proceed, double* V, double* alpha) {
  std::vector<double> theta(objective.size());
  objective.layout().pack(V, alpha, theta.data());
  objective.pose(y, gamma);
  Lbfgs search(objective, kMemory);
  search.start(theta.data());
  search.run(evaluations, [&] { return search.evaluations() < evaluations && proceed(); });
  objective.layout().unpack(search.theta(), V, alpha);
  return {search.evaluations(), search.value()};
}

}  // namespace dconnet
