#include "team.hpp"

#include <system_error>

#ifndef _WIN32
#include <unistd.h>
#endif

namespace dconnet {

namespace {

// How often to check for work before going to sleep: about as long as it takes to wake up again.
constexpr int kSpins = 2000;

// The number of this process, where processes can fork.
long long process_number() {
#ifdef _WIN32
  return 0;
#else
  return getpid();
#endif
}

inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

// Looks a while whether the condition holds.
template <typename Condition>
bool comes_soon(const Condition& holds) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (holds()) return true;
    pause();
  }
  return false;
}

}  // namespace

Team::~Team() {
  if (!others_) return;
  if (process_ != process_number()) {
    // In a fork there are no threads to wait for, but the condition seems to have sleepers still, and the system may have
    // given their names to other threads: nothing of this can be destroyed.
    static_cast<void>(others_.release());
    return;
  }
  {
    const std::lock_guard<std::mutex> lock(others_->mutex);
    ends_ = true;
    ++turn_;
  }
  others_->work_came.notify_all();
  for (std::thread& thread : others_->threads) thread.join();
}

void Team::share(std::size_t count, const Work& work) {
  if (size_ == 1 || count < 2 || !ready()) {
    for (std::size_t item = 0; item < count; ++item) work(item, 0);
    return;
  }
  {
    const std::lock_guard<std::mutex> lock(others_->mutex);
    work_ = work;
    count_ = count;
    next_ = 0;
    ++turn_;
  }
  others_->work_came.notify_all();
  do_items(work, 0);
  std::unique_lock<std::mutex> lock(others_->mutex);
  work_.body = nullptr;  // threads that have not begun by now need not
  if (at_work_ == 0) return;
  lock.unlock();
  if (comes_soon([&] { return at_work_.load(std::memory_order_acquire) == 0; })) return;
  lock.lock();
  others_->work_done.wait(lock, [&] { return at_work_ == 0; });
}

// Starts the other threads if that was not done yet; false if there are none, and the caller is alone.
bool Team::ready() {
  if (!others_) {
    others_ = std::make_unique<Others>();
    process_ = process_number();
    try {
      for (std::size_t thread = 1; thread < size_; ++thread) {
        others_->threads.emplace_back([this, thread] { wait_for_work(thread); });
      }
    } catch (const std::system_error&) {
      // the system gives no more threads: those that there are will do
    }
  }
  return !others_->threads.empty() && process_ == process_number();
}

void Team::wait_for_work(std::size_t thread) {
  std::size_t seen = 0;
  while (true) {
    const auto came = [&] { return turn_is_over(seen); };
    const bool soon = comes_soon(came);
    std::unique_lock<std::mutex> lock(others_->mutex);
    if (!soon) others_->work_came.wait(lock, came);
    seen = turn_;
    if (ends_) return;
    if (work_.body == nullptr) continue;
    const Work work = work_;
    ++at_work_;
    lock.unlock();
    do_items(work, thread);
    lock.lock();
    if (--at_work_ == 0) others_->work_done.notify_one();
  }
}

void Team::do_items(const Work& work, std::size_t thread) {
  for (std::size_t item = next_++; item < count_; item = next_++) work(item, thread);
}

}  // namespace dconnet
