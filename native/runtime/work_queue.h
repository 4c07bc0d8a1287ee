// Threads that run work in order of arrival, and pass it to the completions.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "completions.h"

namespace aclgrad {

class WorkQueue {
 public:
  // Throws std::system_error if the system has no more threads.
  WorkQueue(std::size_t thread_count, std::shared_ptr<Completions> completions);
  // Waits for the work under way. Work that has not begun is completed with an error, unless it runs at close.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  void Submit(std::unique_ptr<Work> work);

 private:
  void RunThread();
  void RunWork(std::unique_ptr<Work> work);
  void StopThreads();

  const std::shared_ptr<Completions> completions_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Work>> waiting_;
  bool is_stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace aclgrad
