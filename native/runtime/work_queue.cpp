#include "work_queue.h"

#include <stdexcept>
#include <utility>

namespace aclgrad {

WorkQueue::WorkQueue(std::size_t thread_count, std::shared_ptr<Completions> completions)
    : completions_(std::move(completions)) {
  try {
    for (std::size_t i = 0; i < thread_count; ++i) threads_.emplace_back([this] { RunThread(); });
  } catch (...) {
    // Destroying a thread that is not joined would end the process.
    StopThreads();
    throw;
  }
}

WorkQueue::~WorkQueue() {
  StopThreads();
  for (std::unique_ptr<Work>& work : waiting_) {
    if (work->runs_at_close()) {
      RunWork(std::move(work));
    } else {
      work->error = std::make_exception_ptr(std::runtime_error("the device is closed"));
      completions_->Add(std::move(work));
    }
  }
}

void WorkQueue::StopThreads() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkQueue::Submit(std::unique_ptr<Work> work) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(work));
  }
  changed_.notify_one();
}

void WorkQueue::RunThread() {
  for (;;) {
    std::unique_ptr<Work> work;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return is_stopping_ || !waiting_.empty(); });
      if (is_stopping_) return;
      work = std::move(waiting_.front());
      waiting_.pop_front();
    }
    RunWork(std::move(work));
  }
}

void WorkQueue::RunWork(std::unique_ptr<Work> work) {
  try {
    work->Run();
    if (!work->is_complete()) return Submit(std::move(work));
  } catch (...) {
    work->error = std::current_exception();
  }
  completions_->Add(std::move(work));
}

}  // namespace aclgrad
