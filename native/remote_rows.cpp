#include "remote_rows.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace dconnet {

namespace {

// Numbers for each row that is copied, behind the row itself.
constexpr std::size_t kPacked = 4;
// The share of its rows that a process sends before it is known whether all of them are wanted: as many as may be near.
constexpr double kMostUnasked = 1.0 / 8.0;

// Numbers, one after the other.
class Reader {
 public:
  Reader(const double* numbers, std::size_t size) : at_(numbers), end_(numbers + size) {}
  const double* take(std::size_t count) { return std::exchange(at_, at_ + count); }
  double number() { return *take(1); }
  std::size_t count() { return static_cast<std::size_t>(number()); }

  std::size_t left() const { return static_cast<std::size_t>(end_ - at_); }
  // Whether a length comes next that is at most what is left behind it.
  bool has_length() const { return left() > 0 && *at_ >= 0.0 && *at_ <= static_cast<double>(left() - 1); }

 private:
  const double *at_, *end_;
};

void append(const std::vector<double>& numbers, std::vector<double>& to) {
  to.push_back(static_cast<double>(numbers.size()));
  to.insert(to.end(), numbers.begin(), numbers.end());
}

// Appends what the largest blocks of leaves add up to, the first of which has this number.
void append_blocks(std::size_t first, std::size_t width, const std::vector<double>& leaves, std::vector<double>& to) {
  if (width == 0) return;
  LeafTree tree;
  tree.begin(width);
  for (std::size_t at = 0; at < leaves.size(); at += width) tree.add(first++, leaves.data() + at);
  tree.end();
  to.insert(to.end(), tree.values().begin(), tree.values().end());
}

// The other way: writes the sums of the blocks that `first` to `last` are made of, and returns what comes behind them.
const double* spread_blocks(std::size_t first, std::size_t last, std::size_t width, const double* from, double* to) {
  std::fill_n(to, (last - first) * width, 0.0);
  for (const LeafTree::Block& block : largest_blocks(first, last)) {
    std::copy_n(from, width, to + (block.first - first) * width);
    from += width;
  }
  return from;
}

void evaluate(NeuronRows& rows, std::size_t first_leaf, Pass pass, Reader& reader, std::vector<double>& answer) {
  const std::size_t stride = rows.stride(), leaves = rows.leaves();
  const double* alpha = pass == Pass::kOpen ? reader.take(rows.n_outputs()) : nullptr;
  const Split split = pass == Pass::kOpen && reader.number() != 0.0 ? Split::kNet : Split::kPaper;
  const double* v = reader.take(stride);
  const bool with_gradients = reader.number() != 0.0;
  const std::size_t width = with_gradients ? 2 * stride : 0;
  std::vector<double> gradients(leaves * width);
  answer.resize(leaves * kPassSums);
  if (pass == Pass::kOpen) {
    const double* kinks = reader.number() != 0.0 ? reader.take(stride) : nullptr;
    rows.open(alpha, v, split, kinks, answer.data(), gradients.data());
  } else {
    rows.evaluate(v, answer.data(), with_gradients ? gradients.data() : nullptr);
  }
  append_blocks(first_leaf, width, gradients, answer);
}

// The rows that were counted last, if they are no more than this share of all.
void copy_listed(NeuronRows& rows, double share, std::vector<double>& answer) {
  const std::size_t count = rows.listed(), stride = rows.stride(), width = stride + kPacked;
  if (static_cast<double>(count) > share * static_cast<double>(rows.rows())) return;
  std::vector<double> q(count * stride), beta_g(count), beta_h(count), z(count);
  std::vector<unsigned char> active(count);
  rows.copy_listed({q.data(), beta_g.data(), beta_h.data(), z.data(), active.data()});
  answer.resize(count * width);
  for (std::size_t i = 0; i < count; ++i) {
    double* to = std::copy_n(q.data() + i * stride, stride, answer.data() + i * width);
    to[0] = beta_g[i], to[1] = beta_h[i], to[2] = z[i], to[3] = active[i];
  }
}

// Of the leaves that the question names, from the first to the last, those of this process: calls sums(first, last, answer) with
// room for `size` numbers for each of them.
template <typename Sums>
void sum_leaves(std::size_t first_leaf, std::size_t leaves, std::size_t size, Reader& reader, std::vector<double>& answer,
                const Sums& sums) {
  const std::size_t first = std::max(reader.count(), first_leaf), last = std::min(reader.count(), first_leaf + leaves);
  if (first >= last) return;
  answer.resize((last - first) * size);
  sums(first - first_leaf, last - first_leaf, answer.data());
}

void far_sums(NeuronRows& rows, std::size_t first_leaf, Reader& reader, std::vector<double>& answer) {
  const bool from_scratch = reader.number() != 0.0;
  const std::size_t size = rows.stride() * rows.stride() + 2 * rows.stride();
  sum_leaves(first_leaf, rows.leaves(), size, reader, answer, [&](std::size_t first, std::size_t last, double* sums) {
    rows.far_sums(from_scratch, first, last, sums);
  });
}

void zero_sums(NeuronRows& rows, std::size_t first_leaf, Reader& reader, std::vector<double>& answer) {
  const double* x = reader.take(rows.stride());
  sum_leaves(first_leaf, rows.leaves(), rows.zero_size(), reader, answer,
             [&](std::size_t first, std::size_t last, double* sums) { rows.zero_sums(x, first, last, sums); });
}

// A power of two, at most as long as a leaf.
bool is_spacing(double number) {
  for (std::size_t spacing = 1; spacing <= kLeaf; spacing *= 2) {
    if (number == static_cast<double>(spacing)) return true;
  }
  return false;
}

bool is_question(const NeuronRows& rows, Pass pass, const double* question, std::size_t size) {
  const std::size_t stride = rows.stride();
  switch (pass) {
    case Pass::kSetNetwork: return size == rows.n_hidden() * (rows.n_outputs() + rows.columns());
    case Pass::kOpen: {
      const std::size_t plain = rows.n_outputs() + 3 + stride;
      return size >= plain && size == plain + (question[plain - 1] != 0.0 ? stride : 0);
    }
    case Pass::kEvaluate: return size == stride + 1;
    case Pass::kClose: return size == rows.n_outputs();
    case Pass::kSampleRows:
    case Pass::kSampleSlopes: return size == 1 && is_spacing(*question);
    case Pass::kChoose:
    case Pass::kCopyListed: return size == 1;
    case Pass::kFarSums: return size == 3;
    case Pass::kZeroSums: return size == stride + 2;
    case Pass::kRecheckFar:
      return size > stride + 2 && question[stride + 1] == static_cast<double>(size - stride - 2) &&
             size - stride - 2 < LeafPasses::kReferences;
    case Pass::kRatios:
    case Pass::kTakeListed:
    case Pass::kAllSlopes: return size == 0;
    case Pass::kPasses: return false;
  }
  return false;
}

void answer_question(NeuronRows& rows, std::size_t first_leaf, Pass pass, Reader reader, std::vector<double>& answer) {
  const std::size_t stride = rows.stride(), leaves = rows.leaves();
  answer.clear();
  switch (pass) {
    case Pass::kSetNetwork: {
      const double* alpha = reader.take(rows.n_hidden() * rows.n_outputs());
      answer.resize(leaves);
      return rows.set_network(alpha, reader.take(rows.n_hidden() * rows.columns()), answer.data());
    }
    case Pass::kOpen:
    case Pass::kEvaluate: return evaluate(rows, first_leaf, pass, reader, answer);
    case Pass::kClose: return rows.close(reader.take(rows.n_outputs()));
    case Pass::kRatios: answer.resize(leaves * LeafPasses::kRatios); return rows.ratios(answer.data());
    case Pass::kChoose: answer.resize(leaves * kCounts); return rows.choose(reader.number(), answer.data());
    case Pass::kFarSums: return far_sums(rows, first_leaf, reader, answer);
    case Pass::kZeroSums: return zero_sums(rows, first_leaf, reader, answer);
    case Pass::kRecheckFar: {
      const double* v = reader.take(stride);
      const double noise = reader.number();
      const std::size_t number = reader.count();
      answer.resize(leaves);
      return rows.recheck_far(v, noise, number, reader.take(number), answer.data());
    }
    case Pass::kCopyListed: return copy_listed(rows, reader.number(), answer);
    case Pass::kTakeListed: return rows.take_listed();
    case Pass::kSampleRows: {
      const std::size_t spacing = reader.count();
      answer.resize(rows.sampled(spacing) * stride);
      return rows.sample_rows(spacing, answer.data());
    }
    case Pass::kSampleSlopes: {
      const std::size_t spacing = reader.count();
      answer.resize(rows.sampled(spacing));
      return rows.sample_slopes(spacing, answer.data());
    }
    case Pass::kAllSlopes: return answer.assign(rows.beta_g(), rows.beta_g() + rows.rows());
    case Pass::kPasses: return;
  }
}

}  // namespace

bool answer(NeuronRows& rows, std::size_t first_leaf, const double* round, std::size_t size, std::vector<double>& answers) {
  Reader reader(round, size);
  std::vector<double> answer;
  while (reader.left() > 0) {
    const double pass = reader.number();
    if (!(pass >= 0.0 && pass < static_cast<double>(Pass::kPasses)) || !reader.has_length()) return false;
    const std::size_t count = reader.count();
    const double* numbers = reader.take(count);
    const Pass which = static_cast<Pass>(pass);
    if (!is_question(rows, which, numbers, count)) return false;
    answer_question(rows, first_leaf, which, Reader(numbers, count), answer);
    append(answer, answers);
  }
  return true;
}

RemoteRows::RemoteRows(std::vector<std::size_t> parts, std::size_t columns, std::size_t n_hidden, std::size_t n_outputs,
                       std::size_t most_numbers, Ask ask)
    : parts_(std::move(parts)),
      rows_(std::accumulate(parts_.begin(), parts_.end(), std::size_t{0})),
      columns_(columns),
      n_hidden_(n_hidden),
      n_outputs_(n_outputs),
      most_numbers_(most_numbers),
      ask_(std::move(ask)) {
  for (const std::size_t rows : parts_) leaves_ += Leaves{rows}.count();
}

// Calls body(first, last) for the leaves of each part, in their order.
template <typename Body>
void RemoteRows::each_part(const Body& body) const {
  std::size_t first = 0;
  for (const std::size_t rows : parts_) {
    const std::size_t last = first + Leaves{rows}.count();
    body(first, last);
    first = last;
  }
}

// The number of blocks in the answers of all processes.
std::size_t RemoteRows::blocks() const {
  std::size_t count = 0;
  each_part([&](std::size_t first, std::size_t last) { count += largest_blocks(first, last).size(); });
  return count;
}

bool RemoteRows::may_be_whole() const { return rows_ <= most_numbers_ / stride(); }

RemoteRows& RemoteRows::write(const double* numbers, std::size_t count) {
  numbers_.insert(numbers_.end(), numbers, numbers + count);
  return *this;
}

// Makes the numbers written so far a question of the next round.
RemoteRows& RemoteRows::queue(Pass pass) {
  queued_.push_back({pass, std::exchange(numbers_, {}), {}});
  return *this;
}

void RemoteRows::send() {
  std::vector<double> round, answers;
  for (const Question& question : queued_) {
    round.push_back(static_cast<double>(question.pass));
    append(question.numbers, round);
  }
  answered_ = std::exchange(queued_, {});
  failed_ = failed_ || !ask_(round, answers) || !sort_answers(answers);
}

// Splits the answers of all processes by question; false if their lengths do not fit.
bool RemoteRows::sort_answers(const std::vector<double>& answers) {
  Reader reader(answers.data(), answers.size());
  for (const std::size_t rows : parts_) {
    for (std::size_t i = 0; rows > 0 && i < answered_.size(); ++i) {
      if (!reader.has_length()) return false;
      const std::size_t count = reader.count();
      const double* numbers = reader.take(count);
      answered_[i].answer.insert(answered_[i].answer.end(), numbers, numbers + count);
    }
  }
  return reader.left() == 0;
}

// Whether the last round has a complete answer for the pass.
bool RemoteRows::has_answer(Pass pass, std::size_t expected) const {
  return std::any_of(answered_.begin(), answered_.end(), [&](const Question& question) {
    return question.pass == pass && question.answer.size() == expected;
  });
}

// The answer of the last round for the pass, or this number throughout after a failure.
const std::vector<double>& RemoteRows::answer_to(Pass pass, std::size_t expected, double otherwise) {
  const auto is_it = [&](const Question& question) { return question.pass == pass; };
  std::vector<double>& answer = std::find_if(answered_.begin(), answered_.end(), is_it)->answer;
  failed_ = failed_ || answer.size() != expected;
  if (failed_) answer.assign(expected, otherwise);
  return answer;
}

void RemoteRows::copy_answer(Pass pass, std::size_t expected, double otherwise, double* to) {
  const std::vector<double>& answer = answer_to(pass, expected, otherwise);
  std::copy(answer.begin(), answer.end(), to);
}

void RemoteRows::set_network(const double* alpha, const double* V, double* squares) {
  write(alpha, n_hidden_ * n_outputs_).write(V, n_hidden_ * columns_).queue(Pass::kSetNetwork).send();
  copy_answer(Pass::kSetNetwork, leaves(), NAN, squares);
}

void RemoteRows::open(const double* alpha, const double* v, Split split, const double* kinks, double* sums,
                      double* gradients) {
  write(alpha, n_outputs_).write(split == Split::kNet).write(v, stride()).write(1.0).write(kinks != nullptr);
  if (kinks) write(kinks, stride());
  queue(Pass::kOpen);
  if (spacing_ > 0) write(static_cast<double>(spacing_)).queue(Pass::kSampleSlopes);
  send();
  split_evaluations(Pass::kOpen, sums, gradients);
}

// The point may become the next centre, which needs the ratios.
void RemoteRows::evaluate(const double* v, double* sums, double* gradients) {
  write(v, stride()).write(gradients != nullptr).queue(Pass::kEvaluate).queue(Pass::kRatios).send();
  split_evaluations(Pass::kEvaluate, sums, gradients);
}

void RemoteRows::split_evaluations(Pass pass, double* sums, double* gradients) {
  const std::size_t width = gradients ? 2 * stride() : 0;
  const double* from = answer_to(pass, leaves() * kPassSums + blocks() * width, NAN).data();
  each_part([&](std::size_t first, std::size_t last) {
    std::copy_n(from, (last - first) * kPassSums, sums + first * kPassSums);
    from += (last - first) * kPassSums;
    if (gradients) from = spread_blocks(first, last, width, from, gradients + first * width);
  });
}

void RemoteRows::close(const double* alpha) { write(alpha, n_outputs_).queue(Pass::kClose); }

void RemoteRows::ratios(double* ratios) {
  if (!has_answer(Pass::kRatios, leaves() * kRatios)) queue(Pass::kRatios).send();
  copy_answer(Pass::kRatios, leaves() * kRatios, -1.0, ratios);
}

void RemoteRows::choose(double reach, double* counts) {
  write(reach).queue(Pass::kChoose).send();
  copy_answer(Pass::kChoose, leaves() * kCounts, 0.0, counts);
  listed_ = 0;
  for (std::size_t i = 0; i < leaves(); ++i) listed_ += static_cast<std::size_t>(counts[i * kCounts + kNear]);
}

// The last of these sums are followed by the rows that are near.
void RemoteRows::far_sums(bool from_scratch, std::size_t first, std::size_t last, double* sums) {
  write(from_scratch).write(static_cast<double>(first)).write(static_cast<double>(last)).queue(Pass::kFarSums);
  if (last == leaves()) write(1.0).queue(Pass::kCopyListed);
  send();
  copy_answer(Pass::kFarSums, (last - first) * (stride() * stride() + 2 * stride()), NAN, sums);
}

void RemoteRows::recheck_far(const double* v, double noise, std::size_t number, const double* distances, double* counts) {
  write(v, stride()).write(noise).write(static_cast<double>(number)).write(distances, number).queue(Pass::kRecheckFar);
  write(kMostUnasked).queue(Pass::kCopyListed).send();
  copy_answer(Pass::kRecheckFar, leaves(), 0.0, counts);
  listed_ = 0;
  for (std::size_t i = 0; i < leaves(); ++i) listed_ += static_cast<std::size_t>(counts[i]);
}

void RemoteRows::collect(const PackedRows& to) {
  const std::size_t width = stride() + kPacked;
  if (!has_answer(Pass::kCopyListed, listed_ * width)) write(1.0).queue(Pass::kCopyListed).send();
  const std::vector<double>& answer = answer_to(Pass::kCopyListed, listed_ * width, 0.0);
  for (std::size_t i = 0; i < listed_; ++i) {
    const double* from = answer.data() + i * width;
    std::copy_n(from, stride(), to.q + i * stride());
    const double* numbers = from + stride();
    to.beta_g[i] = numbers[0], to.beta_h[i] = numbers[1], to.z[i] = numbers[2], to.active[i] = numbers[3] != 0.0;
  }
  queue(Pass::kTakeListed);
}

void RemoteRows::zero_sums(const double* x, std::size_t first, std::size_t last, double* sums) {
  write(x, stride()).write(static_cast<double>(first)).write(static_cast<double>(last)).queue(Pass::kZeroSums).send();
  copy_answer(Pass::kZeroSums, (last - first) * zero_size(), NAN, sums);
}

void RemoteRows::sample_rows(std::size_t spacing, double* q) {
  fetch_rows(spacing, q);
  spacing_ = spacing;
}

void RemoteRows::fetch_rows(std::size_t spacing, double* q) {
  write(static_cast<double>(spacing)).queue(Pass::kSampleRows).send();
  copy_answer(Pass::kSampleRows, sampled(spacing) * stride(), 0.0, q);
}

void RemoteRows::sample_slopes(std::size_t spacing, double* beta_g) {
  const std::size_t expected = sampled(spacing);
  if (!has_answer(Pass::kSampleSlopes, expected)) write(static_cast<double>(spacing)).queue(Pass::kSampleSlopes).send();
  copy_answer(Pass::kSampleSlopes, expected, 0.0, beta_g);
}

WholeRows RemoteRows::whole() {
  if (whole_.empty()) {
    whole_.push_back(Design::with_capacity(rows_, columns_));
    fetch_rows(1, whole_.back().extend(0, rows_));
  }
  slopes_.resize(rows_);
  queue(Pass::kAllSlopes).send();
  copy_answer(Pass::kAllSlopes, rows_, 0.0, slopes_.data());
  return {&whole_.back(), slopes_.data()};
}

}  // namespace dconnet
