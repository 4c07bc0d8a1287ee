// The worker threads of a device, which share the loops of the kernels that its streams run.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace acl_host {

// The least units of a piece that is worth waking a thread for.
[[nodiscard]] constexpr int64_t Grain(int64_t elements_of_unit) {
  constexpr int64_t kElements = 32768;
  return kElements / elements_of_unit + 1;
}

class ThreadPool {
 public:
  // threads includes the thread that calls ParallelFor.
  explicit ThreadPool(int32_t threads) : threads_(threads) {}
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Starts the workers, as many of them as the system allows. Loops run with those that exist; a later call starts the
  // others.
  void Start();

  using Body = std::function<void(int64_t begin, int64_t end)>;

  // Runs body over [0, count) in pieces of at least grain and returns when all are done. A loop of one piece runs in
  // the caller without waking another thread. Several streams may call at once: each caller works through its own
  // pieces, so no loop waits for a free worker, and free workers join the loop with the most pieces for each thread.
  // The first exception of a piece is rethrown here.
  void ParallelFor(int64_t count, int64_t grain, const Body& body);

  // How often a worker was woken so far. A loop wakes no more of them than there are pieces beside the caller's.
  [[nodiscard]] int64_t wake_ups() const;

 private:
  struct Loop;

  [[nodiscard]] std::shared_ptr<Loop> Neediest() const;
  void Work();

  const int32_t threads_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<Loop>> loops_;
  std::vector<std::thread> workers_;
  int64_t idle_ = 0;  // workers that sleep and were not woken
  int64_t wake_ups_ = 0;
  int64_t answered_ = 0;  // the wake-ups that a worker has noticed
  bool stopping_ = false;
};

}  // namespace acl_host
