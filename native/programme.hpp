// The convex programme of one DCA step,
//
//   min_v  P(v) = gamma |v|² - <t, v> + sum_j phi_j(z_j),   phi_j(z) = beta_j max(z, 0) + a max(z, 0)²,   z = Q v,
//
// and the duality gap that certifies an answer. Rows that surely keep their side may be left out of Q: a row that stays
// active adds its slope to the linear term, -t, and its square to a vᵀ B v.
#pragma once

#include <cmath>
#include <functional>
#include <vector>

#include "design.hpp"

namespace dconnet {

struct Programme {
  const Design& design;
  const double* linear;  // t, of length design.stride()
  const double* slope;   // beta, of length design.rows()
  double curvature;      // a
  double gamma;
  const double* base = nullptr;  // B, on and above the diagonal, of shape (stride, stride); null if no row is left out
  bool is_convex = true;         // false if slopes may be negative: then only the walk applies, and ends in a local minimum
};

// A point and what belongs to it, in arrays of the caller.
struct Iterate {
  double* v;            // of length design.stride(), padded with zeros
  double* z;            // Q v
  double* multipliers;  // of the rows
};

// P(v), for z = Q v.
double value(const Programme& programme, const double* v, const double* z);
inline double value(const Programme& programme, const Iterate& at) { return value(programme, at.v, at.z); }

// How good an answer is. Both numbers are relative and zero at a solution.
struct Certificate {
  double gap;  // (P(v) - dual bound) / (|P(v)| + (|t|² + max beta²) / (4 (gamma + a)))
  double kkt;  // largest violation of the optimality conditions / largest gradient

  bool meets(double gap_tolerance, double kkt_tolerance) const { return gap <= gap_tolerance && kkt <= kkt_tolerance; }
};

// When an inexact answer will do: the duality gap is at most a share of the decrease that the answer has reached. With
// the share zero nothing but the solution will.
struct Enough {
  double start = 0.0;  // P at the point to be improved
  double share = 0.0;

  bool wanted() const { return share > 0.0; }
  // A decrease that is no more than rounding does not count.
  bool is_reached(double value, double bound) const {
    const double decrease = start - value;
    return decrease > 1e-10 * (std::fabs(start) + std::fabs(value)) && value - bound <= share * decrease;
  }
};

// Asked now and then: false if the work must stop, because the time is over or the user has interrupted it.
using Proceed = std::function<bool()>;

// Buffers with a number for each row. Solution methods that never run at the same time share them; none keeps a value there
// between two calls.
struct Scratch {
  explicit Scratch(std::size_t rows) : z(rows + 1), along(rows + 1), slopes(rows + 1) {}

  std::vector<double> z, along, slopes;  // one entry more than rows: branch-free loops write one entry ahead
};

// Room for checking answers.
class Certifier {
 public:
  Certifier(const Design& design, Scratch& scratch) : trimmed_(scratch.slopes), pull_(design.stride()), product_(design.stride()) {}

  // Judges an answer. Where anything is NaN, the certificate meets no tolerance. A second, better bound is tried only if the
  // first is not within the tolerance.
  Certificate certify(const Programme& programme, const Iterate& at, double gap_tolerance);

 private:
  void pull(const Programme& programme, const double* v, const double* multipliers);
  double relative_gap(const Programme& programme, const Iterate& at) const;
  double kkt_residual(const Programme& programme, const Iterate& at) const;

  std::vector<double>& trimmed_;  // rows
  std::vector<double> pull_;      // Qᵀ multipliers, and 2 a B v
  std::vector<double> product_;   // columns
};

}  // namespace dconnet
