// Threads that run work in order of arrival, and pass it to the completions.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "completions.h"

namespace aclgrad {

// Work goes to the thread that was idle last, because what libraries cache for each thread is warm there. It waits only
// while no thread is idle.
class WorkQueue {
 public:
  // The last thread calls at_end before it ends, when all work has ended. Throws std::system_error if the system has no
  // more threads.
  WorkQueue(std::size_t thread_count, std::shared_ptr<Completions> completions, std::function<void()> at_end = [] {});
  // Waits for the work under way. Work that has not begun is completed with an error, unless it runs at close.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // For the thread of this number alone, if one is given, even while others are idle; throws std::out_of_range if there
  // is none.
  void Submit(std::unique_ptr<Work> work, std::optional<std::size_t> thread = std::nullopt);

 private:
  // One thread, with the work that it was given.
  struct Runner {
    std::unique_ptr<Work> work;
    std::deque<std::unique_ptr<Work>> own;  // waits for this thread
    std::condition_variable changed;
    std::thread thread;
  };

  void RunThread(Runner& runner);
  // Gives the runner the next work, or makes it idle. Requires the lock.
  void Continue(Runner& runner);
  void StopThreads();
  // On the last thread.
  void End();
  void Abandon(std::deque<std::unique_ptr<Work>>& waiting);

  const std::shared_ptr<Completions> completions_;
  const std::function<void()> at_end_;
  std::mutex mutex_;
  std::deque<std::unique_ptr<Work>> waiting_;  // empty while a thread is idle
  std::vector<Runner*> idle_;                  // the last to become so at the back
  bool is_stopping_ = false;
  std::size_t running_count_ = 0;
  std::deque<Runner> runners_;
};

}  // namespace aclgrad
