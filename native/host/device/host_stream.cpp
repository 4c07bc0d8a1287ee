#include "device/host_stream.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <utility>

namespace acl_host {

HostStream::HostStream(HostDevice& device, void* context) : device_(device), context_(context), slot_(device) {}

HostStream::~HostStream() {
  Close(Pending::kDrop);
  Join();
}

void HostStream::Enqueue(Task task, Time time) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (time != Time::kShort || closed_ || finished_ != enqueued_) {
    return Push(lock, {std::move(task), time != Time::kAny});
  }
  ++enqueued_;
  RunHere(lock, std::move(task));
}

void HostStream::Push(std::unique_lock<std::mutex>& lock, Queued queued) {
  for (;; ended_.wait(lock, [this] { return !lent_; })) {
    if (closed_) throw Error(ACL_ERROR_RT_INVALID_HANDLE, "this stream is being destroyed");
    if (HasThread()) break;
    // Without a thread nothing is queued; another caller may run its task at most.
    if (lent_) continue;
    ++enqueued_;
    return RunHere(lock, std::move(queued.task));
  }
  queue_.push_back(std::move(queued));
  ++enqueued_;
  wake_.notify_one();
}

void HostStream::RunHere(std::unique_lock<std::mutex>& lock, Task task) {
  lent_ = true;
  lock.unlock();
  Run(task);
  task = nullptr;
  lock.lock();
  lent_ = false;
  ++finished_;
  ended_.notify_all();
  if (!queue_.empty() || closed_) wake_.notify_one();  // what came meanwhile had to wait for this task
}

bool HostStream::HasThread() {
  if (thread_.joinable()) return true;
  try {
    thread_ = std::thread([this] { Work(); });
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

void HostStream::RunInOrder(const Task& task) {
  struct Outcome {
    std::mutex mutex;
    std::condition_variable changed;
    bool ended = false;
    std::exception_ptr error = std::make_exception_ptr(
        Error(ACL_ERROR_RT_INVALID_HANDLE, "the stream was destroyed before it came to this task"));
  };
  // Destroyed with the task, whether that ran or was dropped, so that the caller never waits for a destroyed stream.
  struct Ending {
    explicit Ending(std::shared_ptr<Outcome> outcome_in) : outcome(std::move(outcome_in)) {}
    ~Ending() {
      const std::lock_guard<std::mutex> lock(outcome->mutex);
      outcome->ended = true;
      outcome->changed.notify_all();
    }
    std::shared_ptr<Outcome> outcome;
  };
  const auto outcome = std::make_shared<Outcome>();
  Enqueue([&task, ending = std::make_shared<Ending>(outcome)] {
    try {
      task();
      ending->outcome->error = nullptr;
    } catch (...) {
      ending->outcome->error = std::current_exception();
    }
  });
  std::unique_lock<std::mutex> lock(outcome->mutex);
  outcome->changed.wait(lock, [&] { return outcome->ended; });
  if (outcome->error) std::rethrow_exception(outcome->error);
}

bool HostStream::Synchronize(const Deadline& deadline) {
  std::unique_lock<std::mutex> lock(mutex_);
  const uint64_t target = enqueued_;
  while (finished_ < target && CanRunNext() && (!deadline || Clock::now() < *deadline)) {
    Task next = std::move(queue_.front().task);
    queue_.pop_front();
    RunHere(lock, std::move(next));
  }
  if (!WaitUntil(ended_, lock, deadline, [&] { return finished_ >= target; })) return false;
  if (error_) throw *std::exchange(error_, std::nullopt);
  device_.CheckUsable();
  return true;
}

bool HostStream::CanRunNext() const {
  const bool is_running = finished_ + queue_.size() != enqueued_;
  return !is_running && !queue_.empty() && queue_.front().is_brief;
}

bool HostStream::Idle() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return finished_ == enqueued_;
}

void HostStream::Close(Pending pending) {
  std::deque<Queued> dropped;  // destroyed after the lock: a task's end may wake others
  const std::lock_guard<std::mutex> lock(mutex_);
  closed_ = true;
  if (pending == Pending::kDrop) {
    dropping_ = true;
    dropped.swap(queue_);
    finished_ += dropped.size();
    if (!error_ && (finished_ != enqueued_ || !dropped.empty())) {
      error_.emplace(ACL_ERROR_RT_INVALID_HANDLE, "the stream was destroyed before its work was done");
    }
    ended_.notify_all();
  }
  wake_.notify_all();
}

bool HostStream::IsDropping() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return dropping_;
}

bool HostStream::Pause(const std::optional<std::chrono::milliseconds>& duration) {
  constexpr std::chrono::milliseconds kLossCheck{5};
  const auto end = duration ? Deadline(Clock::now() + *duration) : std::nullopt;
  std::unique_lock<std::mutex> lock(mutex_);
  while (!end || Clock::now() < *end) {
    const auto next = Clock::now() + kLossCheck;
    if (wake_.wait_until(lock, end ? std::min(*end, next) : next, [this] { return dropping_; })) return false;
    device_.CheckUsable();
  }
  return true;
}

void HostStream::Join() {
  const std::lock_guard<std::mutex> lock(join_mutex_);
  if (thread_.joinable()) thread_.join();
  std::unique_lock<std::mutex> running(mutex_);
  ended_.wait(running, [this] { return !lent_; });
}

void HostStream::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return !lent_ && (closed_ || !queue_.empty()); });
    if (queue_.empty()) return;
    {
      // Destroys the task, with everything that it holds, before the waiters are told that it ended.
      const Task task = std::move(queue_.front().task);
      queue_.pop_front();
      lock.unlock();
      Run(task);
    }
    lock.lock();
    ++finished_;
    ended_.notify_all();
  }
}

void HostStream::Run(const Task& task) {
  std::optional<Error> error;
  try {
    task();
    return;
  } catch (const Error& failure) {
    error = failure;
  } catch (const std::bad_alloc&) {
    error.emplace(ACL_ERROR_RT_DEVICE_OOM, "the host ran out of memory in a task of the stream");
  } catch (const std::exception& failure) {
    error.emplace(ACL_ERROR_RT_AICORE_EXCEPTION, failure.what());
  }
  device_.RecordOfTask(*error);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!error_) error_ = std::move(error);
}

}  // namespace acl_host
