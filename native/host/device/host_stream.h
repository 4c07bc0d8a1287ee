// A stream: a queue whose tasks run one after the other on the stream's own thread, or on one that would only wait for
// them. If the system refuses that thread, they run on the threads that enqueue them.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "device/host_device.h"
#include "device/wait.h"
#include "errors/exceptions.h"

namespace acl_host {

class HostStream {
 public:
  using Task = std::function<void()>;

  // Takes one of the device's streams; throws if it has none left. context is the handle of the owner.
  HostStream(HostDevice& device, void* context);
  ~HostStream();
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;

  [[nodiscard]] HostDevice& device() const { return device_; }
  [[nodiscard]] void* context() const { return context_; }

  enum class Time {
    kShort,  // less than waking a thread takes
    kBrief,  // so little that a deadline may pass meanwhile
    kAny,    // for ever, perhaps
  };

  // Returns at once if the stream has a thread; a short task runs here if the stream is idle. A later Synchronize
  // reports what the task throws.
  void Enqueue(Task task, Time time = Time::kAny);

  // Returns when the task and everything before it have run; throws what the task throws.
  void RunInOrder(const Task& task);

  // Waits for everything enqueued so far, and runs brief tasks that have not begun, which saves waking two threads;
  // false if the deadline passed first. Throws, once, the first error of the tasks that ran, or were dropped, since the
  // last report; then, every time, that the device is lost.
  [[nodiscard]] bool Synchronize(const Deadline& deadline);

  [[nodiscard]] bool Idle() const;

  // For a task: waits for the duration, or for ever. Returns false at once if the stream drops its tasks; throws if the
  // device is lost meanwhile.
  [[nodiscard]] bool Pause(const std::optional<std::chrono::milliseconds>& duration);

  // For a task: whether the stream drops its tasks.
  [[nodiscard]] bool IsDropping() const;

  // Has the device stop at its streams' first failure.
  void StopOnFailure() {
    stops_on_failure_ = true;
    device_.StopOnFailure();
  }
  [[nodiscard]] bool stops_on_failure() const { return stops_on_failure_; }

  enum class Pending { kRun, kDrop };

  // Refuses new tasks and, with kDrop, removes those that have not begun. Does not wait.
  void Close(Pending pending);

  // Waits for the thread to end; call it after Close.
  void Join();

 private:
  struct Queued {
    Task task;
    bool is_brief;
  };

  // These take the lock.
  void Push(std::unique_lock<std::mutex>& lock, Queued queued);
  void RunHere(std::unique_lock<std::mutex>& lock, Task task);
  [[nodiscard]] bool CanRunNext() const;
  [[nodiscard]] bool HasThread();
  void Work();
  void Run(const Task& task);

  HostDevice& device_;
  void* const context_;
  StreamSlot slot_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;   // the thread has something to do
  std::condition_variable ended_;  // a task ended
  std::deque<Queued> queue_;
  uint64_t enqueued_ = 0;
  uint64_t finished_ = 0;
  bool lent_ = false;  // a thread that enqueued a task, or waits for it, runs it
  bool closed_ = false;
  bool dropping_ = false;
  std::atomic<bool> stops_on_failure_{false};
  std::optional<Error> error_;
  std::mutex join_mutex_;
  std::thread thread_;  // starts with the first task: unused streams cost no thread
};

}  // namespace acl_host
