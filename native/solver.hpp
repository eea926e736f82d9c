// The solver of convex programmes over one design: units, choice of method, and the check of the answer.
#pragma once

#include <cstddef>
#include <vector>

#include "augmented_lagrangian.hpp"
#include "face_walk.hpp"
#include "origin.hpp"
#include "programme.hpp"

namespace dconnet {

// What settled a programme: the start was the solution, or zero was; the walk, or what takes over where many rows meet.
enum class Method : unsigned char { kNone, kStart, kOrigin, kWalk, kAugmentedLagrangian };

const char* name_of(Method method);

struct Outcome {
  std::size_t iterations;
  bool converged;  // to the tolerance in both the duality gap and the optimality conditions
  Method method = Method::kNone;  // of a converged answer
  bool out_of_steps = false;      // the next call, for the same programme, can continue from there
};

class Solver {
 public:
  // A team, if there is one, shares products with many rows.
  explicit Solver(Design design, Team* team = nullptr);
  Solver(const double* design, std::size_t rows, std::size_t columns) : Solver(Design(design, rows, columns)) {}
  Solver(const Solver&) = delete;  // its parts refer to its own design
  Solver& operator=(const Solver&) = delete;

  const Design& design() const { return design_; }
  // |q_j|, and a little more than rounding.
  const double* norms() const { return face_walk_.norms(); }
  // Goes on with other rows from `first` on, for which there must be room: the caller writes them, padded, to the address
  // returned.
  double* replace_rows(std::size_t first, std::size_t count) { return design_.extend(first, count); }
  // The rows from `first` on are written. False if the last answer is not that of a walk that could continue with them.
  bool took_rows(std::size_t first);
  // Before the `next` programme, which may then differ from the last one in its base, too: puts the rows from `first` on to
  // the sides of their preactivations.
  void admit(const Programme& programme, std::size_t first, const double* z);
  // Forgets the last programme.
  void forget() { walked_ = false; }
  // Sets the function that is asked now and then whether to proceed; if not, a programme ends unsolved. Null means always.
  void watch(const Proceed* proceed);

  // Solves one programme: replaces a start by the answer. `gram` may hold any set of rows: best those of a solution that is
  // like this one. With `next`, the programme differs from the last one in its linear term only, and the start is the last
  // answer. An answer that is `enough` counts as converged; only the walk can end with one.
  Outcome solve(const Programme& programme, double tolerance, std::size_t max_iterations, bool next,
                const Iterate& at, ActiveGram& gram, const Enough& enough = {});
  // Walks downhill on a programme that need not be convex, from a start that is not zero, to a local minimum (`converged`), to
  // zero, or as far as `max_steps` lead. With `next`, the start is where the last call, for the same programme but for rows that
  // were admitted, ended.
  Outcome descend(const Programme& programme, std::size_t max_steps, bool next, const Iterate& at, ActiveGram& gram);

 private:
  bool is_exact(const Programme& programme, const Iterate& at);
  void shorten(const Programme& programme, const Iterate& at) const;
  Method walk(const Programme& programme, std::size_t max_iterations, bool resume, const Iterate& at,
              ActiveGram& gram, std::size_t& used, const Enough& enough);
  Outcome escalate(const Programme& programme, double tolerance, std::size_t max_iterations, const Iterate& at,
                   ActiveGram& gram);
  void keep(const Certificate& certificate, Method method, const Iterate& at);
  void keep_if_better(const Programme& programme, Method method, const Iterate& at);
  void keep_zero(const Programme& programme, double tolerance, const Iterate& at);

  // The best answer so far, while others are tried.
  struct Kept {
    Certificate certificate;
    Method method;
    std::vector<double> v, multipliers;
  };

  Design design_;
  ActiveGram::Changes changes_;
  Scratch scratch_;
  Face face_;
  FaceWalk face_walk_;
  bool walked_ = false;       // to the last answer
  bool uncertified_ = false;  // whether the last walk came to an end that is not exact
  OriginTest origin_;
  AugmentedLagrangian augmented_lagrangian_;
  Certifier certifier_;
  Kept kept_;
};

}  // namespace dconnet
