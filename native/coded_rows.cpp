#include "coded_rows.hpp"

#include <algorithm>

#include "coded_rows_pass.hpp"
#include "dispatch.hpp"

namespace dconnet {

namespace {

constexpr std::size_t kTile = 64;  // rows whose preactivations stay in the nearest cache

// (rows, columns), each row padded with zeros to the width.
void pad(const double* from, std::size_t rows, std::size_t columns, std::size_t width, double* to) {
  for (std::size_t i = 0; i < rows; ++i) std::copy(from + i * columns, from + (i + 1) * columns, to + i * width);
}

}  // namespace

std::size_t CodedRows::columns() const {
  std::size_t sum = 1;
  for (const CodedFeature& feature : features) sum += feature.columns;
  return sum;
}

std::size_t CodedRows::n_places() const {
  std::size_t sum = 0;
  for (const CodedFeature& feature : features) sum += feature.places;
  return sum;
}

std::size_t CodedRows::count(CodedFeature::Kind kind) const {
  return static_cast<std::size_t>(std::count_if(
      features.begin(), features.end(), [kind](const CodedFeature& feature) { return feature.kind == kind; }));
}

void predict(const CodedRows& rows, const double* U, const double* alpha, std::size_t networks, std::size_t n_hidden,
             double* outputs) {
  const std::size_t columns = rows.columns(), width = round_up_to_lanes(n_hidden);
  const Codes codes(rows);
  Aligned<double> weights(columns * width), output_weights(width), Z(kTile * width);
  Aligned<double> level(rows.n_places() * width), slope(level.size());
  const Tables<double> tables{level.data(), slope.data(), weights.data() + (columns - 1) * width, width};
  for (std::size_t i = 0; i < networks; ++i) {
    pad(U + i * columns * n_hidden, columns, n_hidden, width, weights.data());
    pad(alpha + i * n_hidden, 1, n_hidden, width, output_weights.data());
    tabulate(rows, weights.data(), width, level.data(), slope.data());
    for (std::size_t begin = 0; begin < rows.rows; begin += kTile) {
      const std::size_t some = std::min(kTile, rows.rows - begin);
      fastest<forward<Lanes>, forward<Lanes>, forward<Eight>>(codes.from(begin), some, tables, Z.data());
      fastest<combine<double>>(Z.data(), output_weights.data(), some, width, outputs + begin * networks + i, networks);
    }
  }
}

}  // namespace dconnet
