// Rows of a table whose features are coded: most columns of the design are zero or one in most rows, and are not stored.
//
// A feature is one of three kinds, and has some columns of the design M:
//   linear    one column, whose entry is the share
//   ramps     a column for each of its bins: one in the bins below that of the row, the share in its own, zero above it
//   category  a column for each of its first places: one in the place of the row, zero in all others
// The last column of M is the intercept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dconnet {

struct CodedFeature {
  enum class Kind { kLinear, kRamps, kCategory };
  Kind kind;
  std::size_t columns;  // of the design
  std::size_t places;   // that a row may have; a category's places beyond its columns carry nothing
};

// A view of codes, which must outlive it.
struct CodedRows {
  std::size_t rows;
  std::vector<CodedFeature> features;
  const std::uint32_t* places;  // (rows, features): the bin or the level
  const float* shares;          // (rows, features)

  std::size_t columns() const;  // of the design, the intercept included
  std::size_t n_places() const;
  std::size_t count(CodedFeature::Kind kind) const;  // features of a kind
};

// Outputs (rows, networks) of networks with the weights U (networks, columns, n_hidden), the intercept last, and
// alpha (networks, n_hidden).
void predict(const CodedRows& rows, const double* U, const double* alpha, std::size_t networks, std::size_t n_hidden,
             double* outputs);

}  // namespace dconnet
