#include "short_fit.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "dense.hpp"
#include "dispatch.hpp"
#include "layout.hpp"
#include "lbfgs.hpp"
#include "random.hpp"

namespace dconnet {

namespace {

// What the preactivations of a tile of rows may take of the nearest cache: more where the same places shall meet.
constexpr std::size_t kTileSize = 3000, kCodedTileSize = 6000;
constexpr std::size_t kSmallestTile = 32;
constexpr std::size_t kSumRows = 8192;  // whose sums are single; the sum of these is double
constexpr std::size_t kMostPairs = 4;   // groups of neurons of which two sums each fit into registers
constexpr std::size_t kMemory = 10;
constexpr std::uint16_t kRow = 0x7fff, kLast = 0x8000;  // of an entry of the order: the row, and the mark of the last

static_assert(kCodedTileSize <= kRow);

// Where the rows of a tile add to the gradients.
struct Gradients {
  float *level, *slope;  // (places, width)
  std::size_t width;
};

template <std::size_t Groups, typename Vector>
DCONNET_INLINE void add_to(const Vector* sums, float* to) {
  Vector old;
#pragma GCC unroll 8
  for (std::size_t g = 0; g < Groups; ++g) {
    load(old, to + g * kIn<Vector>);
    store(to + g * kIn<Vector>, old + sums[g]);
  }
}

// Adds what the rows with slopes C (rows, width) contribute through a ramp or a category. The rows come in the order of
// their places, the last one in each place with a mark: the sums of a place stay in registers.
template <bool is_ramp>
struct AddRuns {
  template <typename Vector, std::size_t Groups>
  DCONNET_INLINE static void run(std::size_t first, const Codes& codes, std::size_t f, std::size_t rows,
                                 const std::uint16_t* order, const float* C, const Gradients& gradients) {
    const float* share = codes.shares + f;
    C += first;
    for (const std::uint16_t* end = order + rows; order != end;) {
      Vector level[Groups] = {}, slope[Groups] = {}, c;
      const std::size_t place = codes.places[(*order & kRow) * codes.features + f];
      std::size_t row;
      do {
        row = *order & kRow;
        const float* at = C + row * gradients.width;
        const float s = share[row * codes.features];
#pragma GCC unroll 8
        for (std::size_t g = 0; g < Groups; ++g) {
          load(c, at + g * kIn<Vector>);
          level[g] += c;
          if (is_ramp) slope[g] += s * c;
        }
      } while (*order++ == row);
      add_to<Groups>(level, gradients.level + place * gradients.width + first);
      if (is_ramp) add_to<Groups>(slope, gradients.slope + place * gradients.width + first);
    }
  }
};

// Adds what the rows with slopes C (rows, width) contribute to the gradients in the tables.
template <typename Vector>
DCONNET_INLINE void backward(const Codes& codes, std::size_t rows, const std::uint16_t* order, const float* C,
                             const Gradients& gradients) {
  add_product<Vector>({codes.shares, 1, codes.features}, codes.linear, rows, C,
                     {gradients.slope, gradients.width, gradients.slope, gradients.width});
  std::size_t f = codes.linear;
  for (; f < codes.linear + codes.ramps; ++f, order += rows) {
    for_groups<Vector, kMostPairs, AddRuns<true>>(gradients.width, codes, f, rows, order, C, gradients);
  }
  for (; f < codes.features; ++f, order += rows) {
    for_groups<Vector, kMostGroups, AddRuns<false>>(gradients.width, codes, f, rows, order, C, gradients);
  }
}

// Replaces preactivations by the slopes of F in them, for those in the outputs, and adds what the rows contribute to
// the gradients in alpha and in the intercept.
struct Slopes {
  template <typename Vector, std::size_t Groups>
  DCONNET_INLINE static void run(std::size_t first, const float* pull, const float* alpha, std::size_t rows,
                                 std::size_t width, float* Z, float* alpha_gradient, float* intercept_gradient) {
    Vector a[Groups], outputs[Groups] = {}, inputs[Groups] = {}, z;
#pragma GCC unroll 8
    for (std::size_t g = 0; g < Groups; ++g) load(a[g], alpha + first + g * kIn<Vector>);
    for (std::size_t j = 0; j < rows; ++j) {
#pragma GCC unroll 8
      for (std::size_t g = 0; g < Groups; ++g) {
        float* at = Z + j * width + first + g * kIn<Vector>;
        load(z, at);
        const Vector slope = z > 0.0f ? pull[j] * a[g] : Vector{};
        store(at, slope);
        inputs[g] += slope;
        positive_part(z, z);
        outputs[g] += pull[j] * z;
      }
    }
    add_to<Groups>(outputs, alpha_gradient + first);
    add_to<Groups>(inputs, intercept_gradient + first);
  }
};

template <typename Vector>
DCONNET_INLINE void slopes(const float* pull, const float* alpha, std::size_t rows, std::size_t width, float* Z,
                           float* alpha_gradient, float* intercept_gradient) {
  for_groups<Vector, kMostPairs, Slopes>(width, pull, alpha, rows, width, Z, alpha_gradient, intercept_gradient);
}

// A whole number of blocks.
std::size_t tile_rows(const Codes& codes, std::size_t width) {
  const std::size_t size = codes.linear < codes.features ? kCodedTileSize : kTileSize;
  return std::max(kSmallestTile, size / width / kBlock * kBlock);
}

// Writes the order of some rows by their places in a feature, which are numbered from `first` on.
void sort_by_place(const Codes& codes, std::size_t f, std::size_t rows, std::size_t first, std::size_t places,
                   std::size_t* ends, std::uint16_t* order) {
  const auto end_of = [&](std::size_t row) -> std::size_t& { return ends[codes.places[row * codes.features + f] - first]; };
  std::fill(ends, ends + places, 0);
  for (std::size_t j = 0; j < rows; ++j) ++end_of(j);
  std::partial_sum(ends, ends + places, ends);
  for (std::size_t j = rows; j-- > 0;) order[--end_of(j)] = static_cast<std::uint16_t>(j);
  // Now the rows of a place end where those of the next one begin.
  for (std::size_t i = 1; i < places; ++i) {
    if (ends[i] > 0) order[ends[i] - 1] |= kLast;
  }
  if (rows > 0) order[rows - 1] |= kLast;
}

DCONNET_INLINE void add_to_doubles(const float* from, std::size_t n, double* to) {
  for (std::size_t i = 0; i < n; ++i) to[i] += static_cast<double>(from[i]);
}

DCONNET_INLINE void add_scaled(std::size_t n, float weight, const float* x, float* y) {
  for (std::size_t i = 0; i < n; ++i) y[i] += weight * x[i];
}

template <typename Vector>
DCONNET_INLINE void multiply_band(const float* entries, std::size_t rows, std::size_t count, const float* B,
                                  std::size_t width, float* C) {
  std::fill(C, C + rows * width, 0.0f);
  add_product<Vector>({entries, 1, kBlock}, rows, count, B, {C, width, C, width});
}

// Rows of B with the last one, that of the intercept, before the others.
const double* row_of(const double* from_white, std::size_t columns, std::size_t rank, std::size_t i) {
  return from_white + (i + columns - 1) % columns * rank;
}

}  // namespace

template <typename Entry>
Banded::Banded(std::size_t rows, std::size_t columns, const Entry& entry) {
  for (std::size_t begin = 0; begin < rows; begin += kBlock) {
    const std::size_t some = std::min(kBlock, rows - begin);
    std::size_t first = columns, end = 0;
    for (std::size_t k = 0; k < columns; ++k) {
      for (std::size_t i = begin; i < begin + some; ++i) {
        if (entry(i, k) != 0.0) first = std::min(first, k), end = k + 1;
      }
    }
    const std::size_t count = end - std::min(first, end);
    bands_.push_back({some, first, count, entries_.size()});
    for (std::size_t k = first; k < first + count; ++k) {
      for (std::size_t i = begin; i < begin + kBlock; ++i) {
        entries_.push_back(i < rows ? static_cast<float>(entry(i, k)) : 0.0f);
      }
    }
  }
}

void Banded::multiply(const float* B, std::size_t width, float* C) const {
  for (const Band& band : bands_) {
    fastest<multiply_band<Singles>, multiply_band<Singles>, multiply_band<Sixteen>>(entries_.data() + band.at, band.rows, band.count, B + band.first * width, width, C);
    C += band.rows * width;
  }
}

CodedObjective::CodedObjective(const CodedRows& rows, const double* from_white, std::size_t rank, const double* weights,
                               std::size_t n_hidden)
    : rows_(rows),
      codes_(rows),
      given_weights_(weights),
      rank_(rank),
      n_hidden_(n_hidden),
      width_(round_up_to_singles(n_hidden)),
      to_columns_(rows.columns(), rank, [&, columns = rows.columns()](std::size_t i, std::size_t k) {
        return row_of(from_white, columns, rank, i)[k];
      }),
      to_white_(rank, rows.columns(), [&, columns = rows.columns()](std::size_t k, std::size_t i) {
        return row_of(from_white, columns, rank, i)[k];
      }),
      weights_(weights, weights + rows.rows),
      y_(rows.rows),
      columns_(rows.columns() * width_),
      level_(rows.n_places() * width_),
      slope_(level_.size()),
      level_gradient_(level_.size() + width_),
      slope_gradient_(level_gradient_.size()),
      level_sum_(level_gradient_.size()),
      slope_sum_(level_gradient_.size()),
      tile_rows_(tile_rows(codes_, width_)),
      tile_(tile_rows_ * width_),
      pull_(tile_rows_),
      above_(width_) {
  sort_rows();
}

void CodedObjective::sort_rows() {
  const std::size_t coded = codes_.features - codes_.linear;
  order_.resize(rows_.rows * coded);
  std::vector<std::size_t> ends(rows_.n_places());
  for (std::size_t begin = 0; begin < rows_.rows; begin += tile_rows_) {
    const std::size_t some = std::min(tile_rows_, rows_.rows - begin);
    std::size_t first = codes_.linear;  // place of a feature
    for (std::size_t f = 0; f < coded; ++f) {
      const std::size_t places = rows_.features[codes_.linear + f].places;
      sort_by_place(codes_.from(begin), codes_.linear + f, some, first, places, ends.data(),
                    order_.data() + begin * coded + f * some);
      first += places;
    }
  }
}

void CodedObjective::pose(const double* y, double gamma) {
  std::copy(y, y + rows_.rows, y_.begin());
  gamma_ = gamma;
}

void CodedObjective::pack(const double* V, const double* alpha, float* theta) const {
  std::fill(theta, theta + size(), 0.0f);
  for (std::size_t l = 0; l < n_hidden_; ++l) {
    for (std::size_t k = 0; k < rank_; ++k) theta[k * width_ + l] = static_cast<float>(V[l * rank_ + k]);
    theta[rank_ * width_ + l] = static_cast<float>(alpha[l]);
  }
}

void CodedObjective::unpack(const float* theta, double* V, double* alpha) const {
  for (std::size_t l = 0; l < n_hidden_; ++l) {
    for (std::size_t k = 0; k < rank_; ++k) V[l * rank_ + k] = static_cast<double>(theta[k * width_ + l]);
    alpha[l] = static_cast<double>(theta[rank_ * width_ + l]);
  }
}

// The tables, from whitened weights.
void CodedObjective::prepare(const float* theta) {
  to_columns_.multiply(theta, width_, columns_.data());
  tabulate(rows_, columns_.data() + width_, width_, level_.data(), slope_.data());
}

Tables<float> CodedObjective::tables() const { return {level_.data(), slope_.data(), columns_.data(), width_}; }

double CodedObjective::gradient(const float* theta, float* gradient) {
  prepare(theta);
  const bool at_once = rows_.rows <= kSumRows;
  if (!at_once) {
    std::fill(level_sum_.begin(), level_sum_.end(), 0.0);
    std::fill(slope_sum_.begin(), slope_sum_.end(), 0.0);
  }
  clear_gradients();
  double squares = 0.0;
  for (std::size_t begin = 0, summed = 0; begin < rows_.rows; begin += tile_rows_) {
    const std::size_t some = std::min(tile_rows_, rows_.rows - begin);
    squares += add_tile(begin, some, theta + rank_ * width_);
    summed += some;
    if (!at_once && summed >= kSumRows) add_gradients(), summed = 0;
  }
  if (at_once) {
    gather(level_gradient_.data(), slope_gradient_.data(), gradient);
  } else {
    add_gradients();
    gather(level_sum_.data(), slope_sum_.data(), gradient);
  }
  fastest<add_scaled>(size(), static_cast<float>(2.0 * gamma_), theta, gradient);
  return squares + gamma_ * dot(theta, theta, size());
}

// Adds what some rows contribute to the gradients in the tables, and returns their part of the loss.
double CodedObjective::add_tile(std::size_t begin, std::size_t count, const float* alpha) {
  const std::size_t places = level_.size();
  const Codes codes = codes_.from(begin);
  fastest<forward<Singles>, forward<Singles>, forward<Sixteen>>(codes, count, tables(), tile_.data());
  fastest<combine<float>>(tile_.data(), alpha, count, width_, pull_.data(), 1);
  double squares = 0.0;
  for (std::size_t j = 0; j < count; ++j) {
    const float residual = y_[begin + j] - pull_[j], weighted = weights_[begin + j] * residual;
    squares += static_cast<double>(weighted) * static_cast<double>(residual);
    pull_[j] = -2.0f * weighted;
  }
  fastest<slopes<Singles>, slopes<Singles>, slopes<Sixteen>>(pull_.data(), alpha, count, width_, tile_.data(), slope_gradient_.data() + places,
                  level_gradient_.data() + places);
  const std::uint16_t* order = order_.data() + begin * (codes_.features - codes_.linear);
  fastest<backward<Singles>, backward<Singles>, backward<Sixteen>>(codes, count, order, tile_.data(), Gradients{level_gradient_.data(), slope_gradient_.data(), width_});
  return squares;
}

void CodedObjective::clear_gradients() {
  std::fill(level_gradient_.begin(), level_gradient_.end(), 0.0f);
  std::fill(slope_gradient_.begin(), slope_gradient_.end(), 0.0f);
}

void CodedObjective::add_gradients() {
  fastest<add_to_doubles>(level_gradient_.data(), level_gradient_.size(), level_sum_.data());
  fastest<add_to_doubles>(slope_gradient_.data(), slope_gradient_.size(), slope_sum_.data());
  clear_gradients();
}

// From the gradients in the tables to that in whitened coordinates and alpha.
template <typename Real>
void CodedObjective::gather(const Real* level, const Real* slope, float* gradient) {
  float* U = columns_.data() + width_;
  for (const CodedFeature& feature : rows_.features) {
    const bool is_category = feature.kind == CodedFeature::Kind::kCategory;
    std::fill(above_.begin(), above_.end(), 0.0);  // rows in the bins above have the whole ramp
    for (std::size_t k = feature.columns; k-- > 0;) {
      const Real* own = (is_category ? level : slope) + k * width_;
      for (std::size_t l = 0; l < width_; ++l) {
        U[k * width_ + l] = static_cast<float>(static_cast<double>(own[l]) + above_[l]);
        if (!is_category) above_[l] += static_cast<double>(level[k * width_ + l]);
      }
    }
    U += feature.columns * width_;
    level += feature.places * width_;
    slope += feature.places * width_;
  }
  for (std::size_t l = 0; l < width_; ++l) {
    columns_[l] = static_cast<float>(level[l]);
    gradient[rank_ * width_ + l] = static_cast<float>(slope[l]);
  }
  to_white_.multiply(columns_.data(), width_, gradient);
}

void CodedObjective::outputs(const double* V, const double* alpha, double* outputs) {
  std::vector<float> theta(size());
  pack(V, alpha, theta.data());
  prepare(theta.data());
  for (std::size_t begin = 0; begin < rows_.rows; begin += tile_rows_) {
    const std::size_t some = std::min(tile_rows_, rows_.rows - begin);
    fastest<forward<Singles>, forward<Singles>, forward<Sixteen>>(codes_.from(begin), some, tables(), tile_.data());
    fastest<combine<float>>(tile_.data(), theta.data() + rank_ * width_, some, width_, pull_.data(), 1);
    std::copy(pull_.begin(), pull_.begin() + static_cast<std::ptrdiff_t>(some), outputs + begin);
  }
}

// With the better sign.
void start_at_random(CodedObjective& objective, const double* y, std::uint64_t seed, double* V, double* alpha) {
  const Layout layout(objective.rank(), objective.n_hidden(), 1);
  Random random(seed);
  std::vector<double> theta(layout.size()), outputs(objective.n_rows());
  for (std::size_t unit = 0; unit < layout.n_hidden; ++unit) {
    for (std::size_t k = 0; k < layout.columns; ++k) theta[k * layout.width + unit] = random.normal();
    layout.alpha(theta.data())[unit] = random.normal();
  }
  layout.balance(theta.data());
  layout.unpack(theta.data(), V, alpha);
  objective.outputs(V, alpha, outputs.data());
  double product = 0.0, square = 0.0, target = 0.0;
  for (std::size_t j = 0; j < outputs.size(); ++j) {
    const double weight = objective.weights()[j];
    product += weight * outputs[j] * y[j];
    square += weight * outputs[j] * outputs[j];
    target += weight * y[j] * y[j];
  }
  const double factor = std::max(std::fabs(product) / square, 1e-3 * std::sqrt(target / square));
  const double root = std::sqrt(factor), sign = product < 0.0 ? -1.0 : 1.0;
  if (!std::isnormal(root)) return;
  for (std::size_t unit = 0; unit < layout.n_hidden; ++unit) layout.scale(theta.data(), unit, root, sign * root);
  layout.unpack(theta.data(), V, alpha);
}

ShortFit fit_shortly(CodedObjective& objective, const double* y, double gamma, std::size_t evaluations,
                     const Proceed& proceed, double* V, double* alpha) {
  std::vector<float> theta(objective.size());
  objective.pack(V, alpha, theta.data());
  objective.pose(y, gamma);
  LbfgsOf<float> search(objective, kMemory);
  search.start(theta.data());
  search.run(evaluations, [&] { return search.evaluations() < evaluations && proceed(); });
  objective.unpack(search.theta(), V, alpha);
  return {search.evaluations(), search.value()};
}

}  // namespace dconnet
