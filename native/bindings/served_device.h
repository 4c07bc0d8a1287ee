// A device with the threads that work for it, for Python.
#pragma once

#include <pybind11/pybind11.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>

#include "completions.h"
#include "device.h"
#include "work_queue.h"

namespace aclgrad {

// Work that Python submitted. Create and destroy it with the GIL held; Run has no GIL.
class SubmittedWork : public Work {
 public:
  explicit SubmittedWork(pybind11::object given_ticket) : ticket(std::move(given_ticket)) {}

  // What drain returns beside the ticket, if Run threw nothing. Called once.
  [[nodiscard]] virtual pybind11::object Result() { return pybind11::none(); }

  // Whatever Python gave to recognise the work by; null if nobody is to be told.
  const pybind11::object ticket;
};

// Work without a result.
template <typename Function>
class FunctionWork final : public SubmittedWork {
 public:
  FunctionWork(pybind11::object given_ticket, Function function)
      : SubmittedWork(std::move(given_ticket)), function_(std::move(function)) {}
  void Run() override { function_(); }

 private:
  Function function_;
};

struct ServedDevice {
  ServedDevice(std::shared_ptr<const AclLibrary> library, int index, const DeviceOptions& options,
               std::size_t copy_threads, std::shared_ptr<Completions> given_completions)
      : completions(std::move(given_completions)),
        device(std::move(library), index, options),
        calls(options.stream_limit, completions),
        copies(copy_threads, completions),
        stagings(1, completions) {}

  const std::shared_ptr<Completions> completions;
  Device device;
  // A thread for each stream: calls wait for the device here and nowhere else.
  WorkQueue calls;
  // For pieces of tensors, and whatever else asks the driver.
  WorkQueue copies;
  // For new stagings: they may wait for a stream, which only copies and releases of others set free.
  WorkQueue stagings;
};

// Closing a device waits for its work, so others get the GIL meanwhile.
struct CloseWithoutGil {
  void operator()(ServedDevice* device) const {
    // Completed work holds Python objects. If it goes with the device, it goes when the GIL is back.
    const std::shared_ptr<Completions> completions = device->completions;
    const pybind11::gil_scoped_release release;
    delete device;
  }
};

using DeviceClass = pybind11::class_<ServedDevice, std::unique_ptr<ServedDevice, CloseWithoutGil>>;

// Adds Completions and Device to the module; the other parts add methods to Device.
[[nodiscard]] DeviceClass BindDevice(pybind11::module_& module);

// The time of Python's time.monotonic; one that is not a number has passed.
[[nodiscard]] inline Deadline DeadlineOf(double monotonic_s) {
  using Seconds = std::chrono::duration<double>;
  // Far beyond any process, and far from where nanoseconds overflow.
  constexpr double kLatest = 1e9;
  const Seconds time(monotonic_s > 0 ? std::min(monotonic_s, kLatest) : 0);
  return Deadline(std::chrono::duration_cast<Deadline::duration>(time));
}

}  // namespace aclgrad
