// One device: its context, streams and memory, and operators executed on it.
#pragma once

#include <atomic>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "constants.h"
#include "device_context.h"
#include "device_loss.h"
#include "execution.h"
#include "group.h"
#include "memory_pool.h"
#include "staging.h"
#include "step_watch.h"
#include "stream_pool.h"

namespace aclgrad {

struct DeviceOptions {
  // Limits the memory pool; by default nine tenths of the memory that is free when the device is opened, and no more
  // than the part that each of the processes which share the device has of all.
  std::optional<std::size_t> pool_limit_bytes;
  // Bytes that the pool keeps for later calls; by default everything that it has reserved.
  std::optional<std::size_t> pool_high_water_bytes;
  bool pool_pass_through = false;
  // The most calls that run at once; at least 1.
  std::size_t stream_limit = 8;
  // Executors that each stream keeps for reuse; 0 for none.
  std::size_t executor_limit = 0;
  // Makes operators that have a choice return the same bits for the same call.
  bool deterministic = false;
  // The device counts as lost if a kernel is still running this long after its call's deadline, or if any other step of
  // a call takes this long.
  int32_t hang_timeout_ms = 60'000;
  // The most copies of stagings at once on a device that does not take host addresses, abandoned ones included.
  std::size_t copy_stream_limit = 32;
  // Threads that use the device at once; the steps of more are not all watched.
  std::size_t thread_count = 64;
  // Pinned memory of the host for all copies; what does not fit is copied from and to pageable memory.
  std::size_t pinned_limit_bytes = std::size_t{128} << 20;
  // The processes that share the device, this one included.
  std::size_t process_count = 1;
};

struct DeviceMemory {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
};

class Device;

// Returns a staging to its device, which may still be working on it.
struct StagingDeleter {
  Device* device;
  void operator()(Staging* staging) const;
};

using StagingHandle = std::unique_ptr<Staging, StagingDeleter>;

class Device {
 public:
  // Throws AclError if the device cannot be opened, std::invalid_argument for invalid options.
  Device(std::shared_ptr<const AclLibrary> library, int index, const DeviceOptions& options);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Copies the inputs to the device, runs the operator and copies the output back. Blocks; any thread may call. A call
  // that has not begun by its deadline never begins; the kernel of another one is waited for until wait_until.
  // Throws AclError (507046 if the kernel was not done in time), NotBegun, OutOfMemory, WorkspaceTooLarge if the
  // operator needs a larger workspace than the call allows, of which nothing was begun, std::out_of_range for an
  // operator without a row, and std::invalid_argument for a call that does not fit the operator's parameters. After a
  // code of FaultClass::kDeviceLost, every later call fails with it at once.
  // Returns whether the library says that such a call is short: it takes less time than waking a thread.
  bool Execute(std::shared_ptr<const OperatorCall> call, Deadline deadline, Deadline wait_until);
  bool Execute(std::shared_ptr<const OperatorCall> call, Deadline deadline) {
    return Execute(std::move(call), deadline, deadline);
  }

  // Executes a call that is known to be short, for threads that must not wait. Returns false, having done nothing, if
  // the call would have to wait for a stream or for abandoned work.
  [[nodiscard]] bool ExecuteShort(std::shared_ptr<const OperatorCall> call, Deadline deadline);

  // Executes the steps of a group on at most so many streams that no other call waits for, each lane on one. An error
  // takes the place of a step's: the exception that Execute would have thrown, or InputFailed. If a wait for a stream
  // fails, that is the end of all steps of its lane which had not ended before. After the deadline, or once
  // is_cancelled, it begins no further lane; the steps of those end with NotBegun.
  void ExecuteGroup(Group& group, std::size_t stream_limit, Deadline deadline, Deadline wait_until,
                    const std::atomic<bool>& is_cancelled);

  // Makes a staging for a tensor that arrives or leaves piece by piece; it must not outlive the device. The owner is
  // released when the staging's memory is free, which may be after the handle has gone. Throws AclError, OutOfMemory
  // and std::bad_alloc.
  [[nodiscard]] StagingHandle Stage(std::size_t size_bytes, Staging::Memory kind, std::shared_ptr<const void> owner);

  // Reclaims what abandoned calls left behind, if the device is done with it. Every call does this too; this function
  // is for times without calls. Throws AclError once the device is lost, for example because a kernel never ends.
  void ReleaseFinished();

  // Throws AclError if the device is lost, for example because a step is overdue: every request to the driver for a
  // call is a step. Calls no function of the library and takes no lock, so it returns even if the driver hangs.
  void CheckSteps();

  // How long the oldest step has taken; see StepWatch::Oldest. Takes no lock either.
  [[nodiscard]] Deadline::duration OldestStep() const noexcept { return steps_.Oldest(); }

  // Destroys kept executors, on a thread that has run calls: libraries keep what belongs to an executor in threads, and
  // that ends with them.
  void DropExecutors() noexcept;

  // Returns cached memory that is not in use to the device.
  void Trim();

  [[nodiscard]] int index() const noexcept { return index_; }
  [[nodiscard]] const std::string& soc_name() const noexcept { return soc_name_; }
  [[nodiscard]] bool is_deterministic() const noexcept { return deterministic_; }
  // Whether every error of its streams is a lost device: see Stream::Wait.
  [[nodiscard]] bool stops_at_faults() const noexcept { return stops_at_faults_; }
  [[nodiscard]] std::size_t pool_limit_bytes() const noexcept { return memory_->limit_bytes(); }
  [[nodiscard]] PoolStatistics pool_statistics() const { return memory_->Statistics(); }
  [[nodiscard]] std::size_t pinned_bytes() const { return pinned_->Statistics().reserved_bytes; }
  // Why the host gives no pinned memory, so that copies block; empty if it does, or was not asked.
  [[nodiscard]] std::string PinnedRefusal() const { return pinned_->Refusal(); }
  [[nodiscard]] std::size_t stream_count() const { return streams_->stream_count(); }
  [[nodiscard]] std::size_t leased_stream_count() const { return streams_->leased_count(); }
  [[nodiscard]] ExecutorStatistics executor_statistics() const noexcept { return streams_->executor_statistics(); }
  // Work that nobody waits for and that the device may not have finished.
  [[nodiscard]] std::size_t abandoned_count() const noexcept { return abandoned_count_; }
  [[nodiscard]] DeviceMemory Memory();

 private:
  friend struct StagingDeleter;

  // Owns the selection of the device. It is declared first, so that it ends last, also if the device cannot be opened.
  class SetDevice {
   public:
    SetDevice(const AclLibrary& library, int index) noexcept : library_(library), index_(index) {}
    ~SetDevice();
    SetDevice(const SetDevice&) = delete;
    SetDevice& operator=(const SetDevice&) = delete;

    void LeaveSet() noexcept { is_left_set_ = true; }

   private:
    const AclLibrary& library_;
    const int index_;
    bool is_left_set_ = false;
  };

  // Any thread may call.
  void MakeCurrent();
  [[nodiscard]] MemorySource Watched(const MemorySource& source);
  [[nodiscard]] DeviceMemory FreeMemory() const;
  void Quarantine(std::unique_ptr<DeviceWork> work) noexcept;
  bool Run(StreamLease stream, std::shared_ptr<const OperatorCall> call, Deadline deadline, Deadline wait_until);
  [[nodiscard]] ExecutionContext execution_context() noexcept {
    return {*library_, *memory_, *pinned_, *constants_, steps_, loss_};
  }
  // Runs a part of an execution; if it throws, moves the execution to the abandoned work.
  template <typename Part>
  void RunPart(std::unique_ptr<Execution>& execution, const Part& part);

  std::shared_ptr<const AclLibrary> library_;
  const int index_;
  const bool deterministic_;
  const std::chrono::milliseconds hang_timeout_;
  const std::string soc_name_;
  std::optional<SetDevice> set_device_;
  DeviceLoss loss_;
  StepWatch steps_;
  std::optional<DeviceContext> context_;
  std::unique_ptr<MemoryPool> memory_;
  std::unique_ptr<MemoryPool> pinned_;
  std::unique_ptr<Constants> constants_;
  std::unique_ptr<StreamPool> streams_;
  std::unique_ptr<StreamPool> copy_streams_;
  bool stops_at_faults_ = false;
  std::optional<CopyPath> copy_path_;  // if the device does not take host addresses
  std::mutex quarantine_mutex_;
  std::list<Abandoned> quarantine_;
  // Also counts what a thread has taken off the list to look at it.
  std::atomic<std::size_t> abandoned_count_{0};
};

}  // namespace aclgrad
