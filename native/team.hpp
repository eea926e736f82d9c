// Threads that share a piece of work, and wait for the next piece in between.
//
// The standard library's threads: no runtime that could clash with those of other packages. Who does which item is left
// to chance, so that a result must not depend on it; sums are made for each item, and merged in order by the caller.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace dconnet {

class Team {
 public:
  // The calling thread is one of them; the others start with the first work that is shared.
  explicit Team(std::size_t size = 1) : size_(size < 1 ? 1 : size) {}
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  std::size_t size() const { return size_; }

  // Calls body(item, thread) for all items below `count`, and returns when they are done. The number of the thread is
  // below size(), so that each can have room for work of its own. The body must not throw.
  template <typename Body>
  void run(std::size_t count, const Body& body) {
    const auto call = [](const void* body, std::size_t item, std::size_t thread) {
      (*static_cast<const Body*>(body))(item, thread);
    };
    share(count, {&body, call});
  }

 private:
  // A reference to a function of the caller: nothing is allocated for it.
  struct Work {
    const void* body = nullptr;  // null while there is nothing to do
    void (*call)(const void* body, std::size_t item, std::size_t thread) = nullptr;

    void operator()(std::size_t item, std::size_t thread) const { call(body, item, thread); }
  };

  void share(std::size_t count, const Work& work);
  bool ready();
  void wait_for_work(std::size_t thread);
  void do_items(const Work& work, std::size_t thread);
  bool turn_is_over(std::size_t seen) const { return turn_.load(std::memory_order_acquire) != seen; }

  // The other threads, and what they wait for.
  struct Others {
    std::vector<std::thread> threads;
    std::mutex mutex;
    std::condition_variable work_came, work_done;
  };

  std::size_t size_;
  std::unique_ptr<Others> others_;  // none before the first work that is shared
  long long process_ = 0;           // the threads of a process do not live on in its forks

  Work work_;
  std::size_t count_ = 0;
  std::atomic<std::size_t> next_{0};   // item
  std::atomic<std::size_t> turn_{0};   // counts the pieces of work
  std::atomic<std::size_t> at_work_{0};  // other threads that take part in the present one
  bool ends_ = false;
};

// Shared by kernel objects that take turns; none is the calling thread alone.
using SharedTeam = std::shared_ptr<Team>;
inline SharedTeam or_alone(SharedTeam team) { return team ? team : std::make_shared<Team>(); }

}  // namespace dconnet
