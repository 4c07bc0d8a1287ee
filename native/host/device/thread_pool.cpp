#include "device/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>

namespace acl_host {

struct ThreadPool::Loop {
  Loop(int64_t count_in, int64_t piece_in, const Body& body_in)
      : count(count_in), piece(piece_in), pieces((count_in + piece_in - 1) / piece_in), body(body_in), open(pieces) {}

  // Runs pieces until all have begun.
  void Run() {
    for (int64_t index = next.fetch_add(1); index < pieces; index = next.fetch_add(1)) {
      try {
        body(index * piece, std::min(count, (index + 1) * piece));
      } catch (...) {
        const std::lock_guard<std::mutex> lock(mutex);
        if (!error) error = std::current_exception();
      }
      // Under the lock: the caller may destroy its body as soon as it sees zero.
      const std::lock_guard<std::mutex> lock(mutex);
      if (--open == 0) done.notify_all();
    }
  }

  void Wait() {
    std::unique_lock<std::mutex> lock(mutex);
    done.wait(lock, [this] { return open == 0; });
    if (error) std::rethrow_exception(error);
  }

  const int64_t count;
  const int64_t piece;
  const int64_t pieces;
  const Body& body;
  std::atomic<int64_t> next{0};
  std::mutex mutex;
  std::condition_variable done;
  int64_t open;
  std::exception_ptr error;
};

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::ParallelFor(int64_t count, int64_t grain, const Body& body) {
  if (count <= 0) return;
  // Four pieces per thread, so that fast threads take over work from threads that the machine slows down.
  const int64_t pieces_wanted = int64_t{4} * threads_;
  const int64_t piece = std::max({int64_t{1}, grain, (count + pieces_wanted - 1) / pieces_wanted});
  if (threads_ == 1 || piece >= count) {
    body(0, count);
    return;
  }
  const auto loop = std::make_shared<Loop>(count, piece, body);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    loops_.push_back(loop);
  }
  wake_.notify_all();
  loop->Run();
  {
    // All pieces have begun: another worker would find nothing to do.
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = std::find(loops_.begin(), loops_.end(), loop);
    if (found != loops_.end()) loops_.erase(found);
  }
  loop->Wait();
}

void ThreadPool::Start() {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto wanted = static_cast<size_t>(threads_) - 1;
  workers_.reserve(wanted);
  try {
    while (workers_.size() < wanted) workers_.emplace_back([this] { Work(); });
  } catch (const std::system_error&) {
    // The process has as many threads as it may have, for example by the limit of its container.
  }
}

void ThreadPool::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || !loops_.empty(); });
    if (stopping_) return;
    const std::shared_ptr<Loop> loop = loops_.front();
    lock.unlock();
    loop->Run();
    lock.lock();
    // The first thread that finds a loop exhausted removes it from the list.
    const auto found = std::find(loops_.begin(), loops_.end(), loop);
    if (found != loops_.end()) loops_.erase(found);
  }
}

}  // namespace acl_host
