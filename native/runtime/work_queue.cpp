#include "work_queue.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "device_context.h"

namespace aclgrad {
namespace {

void Run(Work& work) {
  try {
    work.Run();
  } catch (...) {
    work.error = std::current_exception();
  }
}

}  // namespace

WorkQueue::WorkQueue(std::size_t thread_count, std::shared_ptr<Completions> completions, std::function<void()> at_end)
    : completions_(std::move(completions)), at_end_(std::move(at_end)) {
  idle_.reserve(thread_count);
  try {
    for (std::size_t i = 0; i < thread_count; ++i) {
      Runner& runner = runners_.emplace_back();
      runner.thread = std::thread([this, &runner] { RunThread(runner); });
      const std::lock_guard lock(mutex_);
      ++running_count_;
    }
  } catch (...) {
    // Destroying a thread that is not joined would end the process.
    StopThreads();
    throw;
  }
}

WorkQueue::~WorkQueue() { StopThreads(); }

void WorkQueue::End() {
  Abandon(waiting_);
  for (Runner& runner : runners_) Abandon(runner.own);
  at_end_();
}

void WorkQueue::Abandon(std::deque<std::unique_ptr<Work>>& waiting) {
  for (std::unique_ptr<Work>& work : waiting) {
    if (work->runs_at_close()) {
      Run(*work);
    } else {
      work->error = std::make_exception_ptr(std::runtime_error("the device is closed"));
    }
    completions_->Add(std::move(work));
  }
}

void WorkQueue::StopThreads() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    idle_.clear();
  }
  for (Runner& runner : runners_) {
    runner.changed.notify_one();
    if (runner.thread.joinable()) runner.thread.join();
  }
}

void WorkQueue::Submit(std::unique_ptr<Work> work, std::optional<std::size_t> thread) {
  std::unique_lock lock(mutex_);
  auto idle = idle_.end();
  if (thread) {
    idle = std::find(idle_.begin(), idle_.end(), &runners_.at(*thread));
  } else if (!idle_.empty()) {
    --idle;
  }
  if (idle == idle_.end()) return (thread ? runners_[*thread].own : waiting_).push_back(std::move(work));
  Runner& runner = **idle;
  idle_.erase(idle);
  runner.work = std::move(work);
  lock.unlock();
  runner.changed.notify_one();
}

void WorkQueue::RunThread(Runner& runner) {
  OwnThisThread();
  std::unique_lock lock(mutex_);
  Continue(runner);
  for (;;) {
    runner.changed.wait(lock, [&] { return is_stopping_ || runner.work != nullptr; });
    if (runner.work == nullptr) break;
    std::unique_ptr<Work> work = std::move(runner.work);
    lock.unlock();
    Run(*work);
    lock.lock();
    if (work->error == nullptr && !work->is_complete()) waiting_.push_back(std::move(work));
    // Before the completions have the work: who waits for it may submit the next at once, which is for this thread.
    Continue(runner);
    lock.unlock();
    if (work != nullptr) completions_->Add(std::move(work));
    lock.lock();
  }
  const bool is_last = --running_count_ == 0;
  lock.unlock();
  if (is_last) End();
}

void WorkQueue::Continue(Runner& runner) {
  if (is_stopping_) return;
  std::deque<std::unique_ptr<Work>>& next = runner.own.empty() ? waiting_ : runner.own;
  if (next.empty()) return idle_.push_back(&runner);
  runner.work = std::move(next.front());
  next.pop_front();
}

}  // namespace aclgrad
