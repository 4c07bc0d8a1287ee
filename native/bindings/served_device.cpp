#include "served_device.h"

#include <pybind11/stl.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <tuple>

#include "bindings.h"

namespace py = pybind11;

namespace aclgrad {
namespace {

std::unique_ptr<ServedDevice, CloseWithoutGil> Open(
    std::shared_ptr<AclLibrary> library, int index, const std::shared_ptr<Completions>& completions,
    std::optional<std::size_t> pool_limit_bytes, std::size_t stream_limit, std::size_t copy_threads,
    std::size_t copy_stream_limit, std::optional<std::size_t> pool_high_water_bytes, bool pool_pass_through,
    std::size_t executor_limit, bool deterministic, int32_t hang_timeout_ms, std::size_t process_count,
    std::size_t pinned_limit_bytes) {
  const py::gil_scoped_release release;
  DeviceOptions options{pool_limit_bytes, pool_high_water_bytes, pool_pass_through, stream_limit,
                        executor_limit,   deterministic,         hang_timeout_ms};
  options.copy_stream_limit = copy_stream_limit;
  options.process_count = process_count;
  // Besides those of ServedDevice, that of the caller, who runs short calls.
  options.thread_count = stream_limit + copy_threads + kStagingThreads + 1;
  options.pinned_limit_bytes = pinned_limit_bytes;
  return std::unique_ptr<ServedDevice, CloseWithoutGil>(
      new ServedDevice(std::move(library), index, options, copy_threads, completions));
}

// Free and total bytes of the device, the pool's statistics, streams, streams in use, abandoned work, the executor
// caches' statistics, and pinned memory.
auto StateOf(Device& device) {
  const DeviceMemory memory = device.Memory();
  return std::tuple(memory.free_bytes, memory.total_bytes, device.pool_statistics(), device.stream_count(),
                    device.leased_stream_count(), device.abandoned_count(), device.executor_statistics(),
                    device.pinned_bytes());
}

struct StateTask {
  Device& device;
  std::optional<decltype(StateOf(std::declval<Device&>()))> state{};

  void Run(const Cancellation&) { state = StateOf(device); }
  [[nodiscard]] py::object Result() const { return py::cast(*state); }
};

template <void (Device::*function)()>
struct FunctionTask {
  Device& device;

  void Run(const Cancellation&) { (device.*function)(); }
  [[nodiscard]] py::object Result() const { return py::none(); }
};

// A method that submits a task to the threads that copy.
template <typename Task>
void SubmitOnly(ServedDevice& served, py::object ticket) {
  SubmitTask(served.copies, std::move(ticket), Task{served.device});
}

// The result of work, or its exception.
py::object EndOf(SubmittedWork& work) {
  try {
    return work.error ? ToPython(work.error) : work.Result();
  } catch (...) {
    // The other tickets must still be returned.
    return ToPython(std::current_exception());
  }
}

py::list Drain(Completions& completions) {
  py::list done;
  // Twice: freed work returns the ticket of what it held.
  for (int round = 0; round < 2; ++round) {
    for (std::unique_ptr<Work>& each : completions.Drain()) {
      auto& work = static_cast<SubmittedWork&>(*each);
      if (work.ticket) done.append(py::make_tuple(work.ticket, EndOf(work)));
      // Frees the work now, because it may hold large objects.
      each.reset();
    }
  }
  return done;
}

}  // namespace

TicketReturn::TicketReturn(const std::shared_ptr<Completions>& completions, py::object ticket)
    : completions_(completions), work_(std::make_unique<SubmittedWork>(std::move(ticket))) {}

TicketReturn::~TicketReturn() {
  if (work_ == nullptr) return;
  if (const auto completions = completions_.lock()) completions->Add(std::move(work_));
}

DeviceClass BindDevice(py::module_& module) {
  py::class_<PoolStatistics>(module, "PoolStatistics")
      .def_readonly("allocated_bytes", &PoolStatistics::allocated_bytes)
      .def_readonly("reserved_bytes", &PoolStatistics::reserved_bytes)
      .def_readonly("peak_allocated_bytes", &PoolStatistics::peak_allocated_bytes)
      .def_readonly("peak_reserved_bytes", &PoolStatistics::peak_reserved_bytes)
      .def_readonly("limit_bytes", &PoolStatistics::limit_bytes)
      .def_readonly("largest_free_bytes", &PoolStatistics::largest_free_bytes)
      .def_readonly("allocation_count", &PoolStatistics::allocation_count)
      .def_readonly("hit_count", &PoolStatistics::hit_count)
      .def_readonly("retry_count", &PoolStatistics::retry_count)
      .def_readonly("out_of_memory_count", &PoolStatistics::out_of_memory_count);

  py::class_<Completions, std::shared_ptr<Completions>>(module, "Completions")
      .def(py::init<>())
      .def_property_readonly("file", &Completions::file)
      .def("drain", &Drain);

  py::class_<ExecutorStatistics>(module, "ExecutorStatistics")
      .def_readonly("entry_count", &ExecutorStatistics::entry_count)
      .def_readonly("hit_count", &ExecutorStatistics::hit_count)
      .def_readonly("miss_count", &ExecutorStatistics::miss_count);

  DeviceClass device(module, "Device");
  device
      .def(py::init(&Open), py::arg("library").none(false), py::arg("index"), py::arg("completions").none(false),
           py::kw_only(), py::arg("pool_limit_bytes"), py::arg("stream_limit"), py::arg("copy_threads") = 2,
           py::arg("copy_stream_limit") = 32, py::arg("pool_high_water_bytes") = std::nullopt,
           py::arg("pool_pass_through") = false, py::arg("executor_limit") = 0, py::arg("deterministic") = false,
           py::arg("hang_timeout_ms") = 60'000, py::arg("process_count") = 1,
           py::arg("pinned_limit_bytes") = DeviceOptions().pinned_limit_bytes)
      .def("release_finished", &SubmitOnly<FunctionTask<&Device::ReleaseFinished>>, py::arg("ticket"))
      .def("trim", &SubmitOnly<FunctionTask<&Device::Trim>>, py::arg("ticket"))
      .def("state", &SubmitOnly<StateTask>, py::arg("ticket"))
      // These two keep the GIL, because they take no lock and do not call the driver.
      .def("check_steps", [](ServedDevice& served) { served.device.CheckSteps(); })
      .def_property_readonly(
          "oldest_step_s",
          [](const ServedDevice& served) { return std::chrono::duration<double>(served.device.OldestStep()).count(); })
      .def_property_readonly("index", [](const ServedDevice& served) { return served.device.index(); })
      .def_property_readonly("stops_at_faults",
                             [](const ServedDevice& served) { return served.device.stops_at_faults(); })
      .def_property_readonly("pool_limit_bytes",
                             [](const ServedDevice& served) { return served.device.pool_limit_bytes(); })
      .def_property_readonly("pinned_refusal",
                             [](const ServedDevice& served) { return TextOf(served.device.PinnedRefusal()); })
      .def_property_readonly("soc_name", [](const ServedDevice& served) { return TextOf(served.device.soc_name()); })
      .def_property_readonly("is_deterministic",
                             [](const ServedDevice& served) { return served.device.is_deterministic(); });
  return device;
}

}  // namespace aclgrad
