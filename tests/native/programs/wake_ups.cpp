// A loop wakes no more workers than it has use for, and free workers spread over the loops.
#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <thread>

#include "device/thread_pool.h"
#include "program.h"

namespace {

using acl_host::ThreadPool;

constexpr int32_t kThreads = 5;
constexpr int64_t kPieces = 4 * kThreads;  // the most of a loop

template <typename Condition>
void WaitUntil(const char* what, const Condition& holds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!holds()) {
    programs::Expect(std::chrono::steady_clock::now() < deadline, std::string("waited in vain until ") + what);
    std::this_thread::yield();
  }
}

// A loop whose pieces wait until they are released.
class Held {
 public:
  Held(ThreadPool& pool, int64_t pieces) {
    done_ = std::async(std::launch::async, [this, &pool, pieces] {
      pool.ParallelFor(pieces, 1, [this](int64_t, int64_t) {
        ++running_;
        WaitUntil("the loop is released", [this] { return released_.load(); });
      });
    });
  }
  ~Held() { released_ = true; }

  [[nodiscard]] int64_t running() const { return running_; }
  void Release() {
    released_ = true;
    done_.get();
  }

 private:
  std::atomic<int64_t> running_ = 0;
  std::atomic<bool> released_ = false;
  std::future<void> done_;
};

void ExpectWakeUps(ThreadPool& pool) {
  // One loop that all threads run: then the workers have begun, and go to sleep.
  Held all(pool, kPieces);
  WaitUntil("every thread runs a piece", [&] { return all.running() == kThreads; });
  all.Release();
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

void ExpectSpread(ThreadPool& pool) {
  Held all(pool, kPieces);
  WaitUntil("every thread runs a piece", [&] { return all.running() == kThreads; });
  Held one(pool, kPieces);
  Held other(pool, kPieces);
  WaitUntil("both loops have begun", [&] { return one.running() == 1 && other.running() == 1; });
  all.Release();
  WaitUntil("the workers are at work", [&] { return one.running() + other.running() == kThreads + 1; });
  programs::ExpectEqual("the threads of one loop", static_cast<uint64_t>(one.running()), (kThreads + 1) / 2);
  one.Release();
  other.Release();
}

}  // namespace

void programs::Run(const Arguments&) {
  ThreadPool pool(kThreads);
  pool.Start();
  ExpectWakeUps(pool);
  ExpectSpread(pool);
}
