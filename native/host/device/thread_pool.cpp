#include "device/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>

namespace acl_host {

struct ThreadPool::Loop {
  Loop(int64_t count_in, int64_t piece_in, const Body& body_in)
      : count(count_in), piece(piece_in), pieces((count_in + piece_in - 1) / piece_in), body(body_in), open(pieces) {}

  // How many pieces a thread would have, if one more joined those that run them. The pool's lock is held.
  [[nodiscard]] double Share() const {
    return static_cast<double>(std::max<int64_t>(pieces - next.load(), 0)) / static_cast<double>(threads + 1);
  }

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
  int64_t threads = 1;  // that run pieces; guarded by the pool's lock
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
  int64_t helpers = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    loops_.push_back(loop);
    helpers = std::min(loop->pieces - 1, idle_);
    idle_ -= helpers;
    wake_ups_ += helpers;
  }
  for (int64_t helper = 0; helper < helpers; ++helper) wake_.notify_one();
  loop->Run();
  {
    // All pieces have begun: another worker would find nothing to do.
    const std::lock_guard<std::mutex> lock(mutex_);
    loops_.erase(std::find(loops_.begin(), loops_.end(), loop));
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

int64_t ThreadPool::wake_ups() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return wake_ups_;
}

// The loop that a free worker helps most; null if none needs it. The lock is held.
std::shared_ptr<ThreadPool::Loop> ThreadPool::Neediest() const {
  const auto is_less = [](const auto& a, const auto& b) { return a->Share() < b->Share(); };
  const auto neediest = std::max_element(loops_.begin(), loops_.end(), is_less);
  return neediest == loops_.end() || (*neediest)->Share() == 0 ? nullptr : *neediest;
}

void ThreadPool::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    if (const std::shared_ptr<Loop> loop = Neediest()) {
      ++loop->threads;
      lock.unlock();
      loop->Run();
      lock.lock();
      continue;
    }
    ++idle_;
    wake_.wait(lock, [this] { return stopping_ || answered_ < wake_ups_; });
    ++answered_;
  }
}

}  // namespace acl_host
