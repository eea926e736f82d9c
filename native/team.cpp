#include "team.hpp"

#include <unistd.h>

#include <system_error>

namespace dconnet {

namespace {

// How often to look for work before going to sleep: about as long as it takes to wake up again.
constexpr int kLooks = 2000;

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
  for (int look = 0; look < kLooks; ++look) {
    if (holds()) return true;
    pause();
  }
  return false;
}

}  // namespace

Team::~Team() {
  if (process_ != getpid()) {  // in a fork there is nobody to wait for
    for (std::thread& thread : others_) thread.detach();
    return;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ends_ = true;
    ++turn_;
  }
  work_came_.notify_all();
  for (std::thread& thread : others_) thread.join();
}

void Team::share(std::size_t count, const Work& work) {
  if (size_ == 1 || count < 2 || !ready()) {
    for (std::size_t item = 0; item < count; ++item) work(item, 0);
    return;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    work_ = work;
    count_ = count;
    next_ = 0;
    ++turn_;
  }
  work_came_.notify_all();
  do_items(0);
  std::unique_lock<std::mutex> lock(mutex_);
  work_.body = nullptr;  // who has not begun by now need not
  if (at_work_ == 0) return;
  lock.unlock();
  if (comes_soon([&] { return at_work_.load(std::memory_order_acquire) == 0; })) return;
  lock.lock();
  work_done_.wait(lock, [&] { return at_work_ == 0; });
}

// Starts the other threads if that was not done yet; false if there are none, and the caller is alone.
bool Team::ready() {
  if (others_.empty() && process_ == 0) {
    process_ = getpid();
    try {
      for (std::size_t thread = 1; thread < size_; ++thread) {
        others_.emplace_back([this, thread] { wait_for_work(thread); });
      }
    } catch (const std::system_error&) {
      // the system gives no more threads: those that there are will do
    }
  }
  return !others_.empty() && process_ == getpid();
}

void Team::wait_for_work(std::size_t thread) {
  std::size_t seen = 0;
  while (true) {
    const auto came = [&] { return turn_is_over(seen); };
    const bool soon = comes_soon(came);
    std::unique_lock<std::mutex> lock(mutex_);
    if (!soon) work_came_.wait(lock, came);
    seen = turn_;
    if (ends_) return;
    if (work_.body == nullptr) continue;
    ++at_work_;
    lock.unlock();
    do_items(thread);
    lock.lock();
    if (--at_work_ == 0) work_done_.notify_one();
  }
}

void Team::do_items(std::size_t thread) {
  for (std::size_t item = next_++; item < count_; item = next_++) work_(item, thread);
}

}  // namespace dconnet
