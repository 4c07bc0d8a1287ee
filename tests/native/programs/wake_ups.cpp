// A loop wakes no more workers than it has use for.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "device/thread_pool.h"
#include "program.h"

namespace {

using acl_host::ThreadPool;

constexpr int32_t kThreads = 5;

template <typename Condition>
void WaitUntil(const char* what, const Condition& holds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!holds()) {
    programs::Expect(std::chrono::steady_clock::now() < deadline, std::string("waited in vain until ") + what);
    std::this_thread::yield();
  }
}

void ExpectWakeUps(ThreadPool& pool) {
  // One loop that all threads run: then the workers have begun, and go to sleep.
  std::atomic<int64_t> running = 0;
  pool.ParallelFor(4 * kThreads, 1, [&](int64_t, int64_t) {
    ++running;
    WaitUntil("every thread runs a piece", [&] { return running >= kThreads; });
  });
  int64_t woken = 0;
  WaitUntil("loops of two pieces have woken workers", [&] {
    const int64_t before = pool.wake_ups();
    pool.ParallelFor(2, 1, [](int64_t, int64_t) {});
    const int64_t more = pool.wake_ups() - before;
    programs::Expect(more <= 1, "a loop of two pieces woke " + std::to_string(more) + " workers");
    woken += more;
    return woken == 1000;
  });
  const int64_t before = pool.wake_ups();
  pool.ParallelFor(1, 1, [](int64_t, int64_t) {});
  programs::ExpectEqual("the wake-ups by a loop of one piece", static_cast<uint64_t>(pool.wake_ups() - before), 0);
}

}  // namespace

void programs::Run(const Arguments&) {
  ThreadPool pool(kThreads);
  pool.Start();
  ExpectWakeUps(pool);
}
