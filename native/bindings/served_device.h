// A device with its threads, for Python.
#pragma once

#include <pybind11/pybind11.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "completions.h"
#include "device.h"
#include "work_queue.h"

namespace aclgrad {

// Work that Python submitted. Create and destroy it with the GIL held; Run has no GIL.
class SubmittedWork : public Work {
 public:
  explicit SubmittedWork(pybind11::object given_ticket) : ticket(std::move(given_ticket)) {}

  // The object that drain returns with the ticket, if Run threw nothing. Called once.
  [[nodiscard]] virtual pybind11::object Result() { return pybind11::none(); }

  void Run() override {}

  // Python's object for recognising the work; null if drain is not to report it.
  const pybind11::object ticket;
};

// Returns a ticket when its last owner has gone, on any thread, with or without the GIL: what it stands for is free
// then. Create it with the GIL held.
class TicketReturn {
 public:
  TicketReturn(const std::shared_ptr<Completions>& completions, pybind11::object ticket);
  ~TicketReturn();
  // Leaves the ticket to the caller. Use it with the GIL held.
  void Forget() { work_.reset(); }
  TicketReturn(const TicketReturn&) = delete;
  TicketReturn& operator=(const TicketReturn&) = delete;

 private:
  // Completions that end have the GIL, and destroy calls that refer to them.
  const std::weak_ptr<Completions> completions_;
  std::unique_ptr<SubmittedWork> work_;
};

// Tells work that its caller does not wait any more.
struct Cancellation {
  std::atomic<bool> is_cancelled{false};
};

// Runs a task, which has the inputs, and Run and Result as SubmittedWork has them.
template <typename Task>
class TaskWork final : public SubmittedWork {
 public:
  TaskWork(pybind11::object given_ticket, Task task) : SubmittedWork(std::move(given_ticket)), task_(std::move(task)) {}
  void Run() override { task_.Run(*cancellation); }
  [[nodiscard]] pybind11::object Result() override { return task_.Result(); }

  const std::shared_ptr<Cancellation> cancellation = std::make_shared<Cancellation>();

 private:
  Task task_;
};

template <typename Task>
std::shared_ptr<Cancellation> SubmitTask(WorkQueue& queue, pybind11::object ticket, Task task,
                                         std::optional<std::size_t> thread = std::nullopt) {
  auto work = std::make_unique<TaskWork<Task>>(std::move(ticket), std::move(task));
  auto cancellation = work->cancellation;
  queue.Submit(std::move(work), thread);
  return cancellation;
}

// For new stagings: the driver may be slow to allocate their memory.
inline constexpr std::size_t kStagingThreads = 1;

struct ServedDevice {
  ServedDevice(std::shared_ptr<const AclLibrary> library, int index, const DeviceOptions& options,
               std::size_t copy_threads, std::shared_ptr<Completions> given_completions)
      : completions(std::move(given_completions)),
        device(std::move(library), index, options),
        calls(options.stream_limit, completions, [this] { device.DropExecutors(); }),
        copies(copy_threads, completions),
        stagings(kStagingThreads, completions) {}

  const std::shared_ptr<Completions> completions;
  Device device;
  // One thread per stream: calls wait for the device only here.
  WorkQueue calls;
  // For pieces of tensors, and other requests to the driver.
  WorkQueue copies;
  WorkQueue stagings;
};

// Releases the GIL while the device closes, which waits for its work.
struct CloseWithoutGil {
  void operator()(ServedDevice* device) const {
    // Completed work holds Python objects, so it must be destroyed after the GIL is taken again.
    const std::shared_ptr<Completions> completions = device->completions;
    const pybind11::gil_scoped_release release;
    delete device;
  }
};

using DeviceClass = pybind11::class_<ServedDevice, std::unique_ptr<ServedDevice, CloseWithoutGil>>;

// Converts a time of Python's time.monotonic; a NaN counts as passed.
[[nodiscard]] inline Deadline DeadlineOf(double monotonic_s) {
  using Seconds = std::chrono::duration<double>;
  // Far beyond any process, and far from where nanoseconds overflow.
  constexpr double kLatest = 1e9;
  const Seconds time(monotonic_s > 0 ? std::min(monotonic_s, kLatest) : 0);
  return Deadline(std::chrono::duration_cast<Deadline::duration>(time));
}

}  // namespace aclgrad
