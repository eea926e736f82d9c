// Rows of other processes: every pass is a question to all of them, and their answers, one after the other in the order of their
// rows, are the answer.
//
// Questions and answers are plain numbers. A round holds several questions: the one that is needed now, those queued before that
// need no answer, and those that are likely to come next. `answer` is the other end, in the process that has the rows. Each process
// has leaves of its own. If all of these are full but the very last one, the sums have the bits of a single process.
// Gradients are sent for the largest blocks of leaves, as a tree merges them (`LeafTree`): the sums of a block take the place of
// its first leaf, and its other leaves get zeros.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "neuron_rows.hpp"

namespace dconnet {

enum class Pass : unsigned char {
  kSetNetwork, kOpen, kEvaluate, kClose, kRatios, kChoose, kFarSums, kRecheckFar, kCopyListed, kTakeListed, kZeroSums, kSampleRows,
  kSampleSlopes, kAllSlopes, kPasses
};

// Answers a round for the rows of this process, whose first leaf has this number; false if the round is malformed. The numbers of
// a round: for each question its pass, how many numbers it has, and these. Those of the answers likewise, without the pass.
bool answer(NeuronRows& rows, std::size_t first_leaf, const double* round, std::size_t size, std::vector<double>& answers);

class RemoteRows : public LeafPasses {
 public:
  // Writes the answers of all processes to a round, one after the other; false on failure. Processes without rows write nothing.
  using Ask = std::function<bool(const std::vector<double>& round, std::vector<double>& answers)>;

  // `parts` are the numbers of rows of the processes. All rows are fetched, if a programme needs them, unless they have more than
  // `most_numbers`.
  RemoteRows(std::vector<std::size_t> parts, std::size_t columns, std::size_t n_hidden, std::size_t n_outputs,
             std::size_t most_numbers, Ask ask);

  // Whether a question had no answer of the right length. From then on none is sent, sums are NaN, and counts are zero.
  bool failed() const { return failed_; }

  std::size_t rows() const override { return rows_; }
  std::size_t columns() const override { return columns_; }
  std::size_t leaves() const override { return leaves_; }
  void set_network(const double* alpha, const double* V, double* squares) override;
  void open(const double* alpha, const double* v, Split split, const double* kinks, double* sums,
            double* gradients) override;
  void evaluate(const double* v, double* sums, double* gradients) override;
  void close(const double* alpha) override;
  void ratios(double* ratios) override;
  void choose(double reach, double* counts) override;
  void far_sums(bool from_scratch, std::size_t first, std::size_t last, double* sums) override;
  void recheck_far(const double* v, double noise, std::size_t number, const double* distances, double* counts) override;
  void collect(const PackedRows& to) override;
  void zero_sums(const double* x, std::size_t first, std::size_t last, double* sums) override;
  void sample_rows(std::size_t spacing, double* q) override;
  void sample_slopes(std::size_t spacing, double* beta_g) override;
  // All rows are fetched the first time, and their slopes each time.
  WholeRows whole() override;
  // Not if they are too many to be fetched.
  bool may_be_whole() const override;

 private:
  struct Question {
    Pass pass;
    std::vector<double> numbers, answer;
  };

  RemoteRows& write(const double* numbers, std::size_t count);
  RemoteRows& write(double number) { return write(&number, 1); }
  RemoteRows& queue(Pass pass);
  void send();
  bool sort_answers(const std::vector<double>& answers);
  bool has_answer(Pass pass, std::size_t expected) const;
  const std::vector<double>& answer_to(Pass pass, std::size_t expected, double otherwise);
  void copy_answer(Pass pass, std::size_t expected, double otherwise, double* to);
  template <typename Body>
  void each_part(const Body& body) const;
  std::size_t blocks() const;
  void split_evaluations(Pass pass, double* sums, double* gradients);
  void fetch_rows(std::size_t spacing, double* q);

  std::vector<std::size_t> parts_;
  std::size_t rows_, leaves_ = 0, columns_, n_hidden_, n_outputs_, most_numbers_;
  Ask ask_;
  bool failed_ = false;
  std::size_t listed_ = 0;   // rows that were counted last
  std::size_t spacing_ = 0;  // of the sample, if there is one
  std::vector<double> numbers_;              // of the next question
  std::vector<Question> queued_, answered_;  // the questions of the next round, and those of the last one
  std::vector<Design> whole_;  // one, or none
  std::vector<double> slopes_;
};

}  // namespace dconnet
