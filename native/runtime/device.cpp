#include "device.h"

#include <algorithm>
#include <list>
#include <stdexcept>
#include <utility>

#include "error.h"

namespace aclgrad {
namespace {

constexpr std::size_t kDefaultPoolTenths = 9;
// The longest time that the destructor waits for all abandoned work.
constexpr std::chrono::seconds kAbandonedWorkTimeout{5};

}  // namespace

Device::Device(std::shared_ptr<const AclLibrary> library, int index, const DeviceOptions& options)
    : library_(std::move(library)),
      index_(index),
      deterministic_(options.deterministic),
      hang_timeout_(options.hang_timeout_ms),
      soc_name_(library_->SocName()),
      steps_(hang_timeout_, options.thread_count) {
  if (options.stream_limit == 0) throw std::invalid_argument("a device needs at least 1 stream; the limit is 0");
  const AclLibrary& acl = *library_;
  acl.Check(acl->aclrtSetDevice(index), "aclrtSetDevice");
  set_device_.emplace(acl, index);
  context_.emplace(acl, steps_);
  acl.Check(acl->aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, deterministic_ ? 1 : 0), "aclrtCtxSetSysParamOpt");
  PoolOptions pool;
  const DeviceMemory memory = FreeMemory();
  const std::size_t tenth = memory.free_bytes / 10;
  const std::size_t part =
      memory.total_bytes / 10 * kDefaultPoolTenths / std::max<std::size_t>(1, options.process_count);
  pool.limit_bytes = options.pool_limit_bytes.value_or(std::min(tenth * kDefaultPoolTenths, part));
  // Processes that share the device leave this much of it free together.
  pool.spare_bytes = options.pool_limit_bytes ? 0 : tenth;
  pool.high_water_bytes = options.pool_high_water_bytes.value_or(pool.limit_bytes);
  pool.pass_through = options.pool_pass_through;
  pool.reclaim = [this] { ReleaseFinished(); };
  // The pool itself pads the blocks that it cuts.
  MemorySource source = Watched(DeviceMemorySource(acl, pool.pass_through));
  source.free_bytes = [this] {
    const StepWatch::Step step(steps_);
    return FreeMemory().free_bytes;
  };
  memory_ = std::make_unique<MemoryPool>(acl, source, pool);
  pinned_ =
      std::make_unique<MemoryPool>(acl, Watched(PinnedMemorySource(acl)), PoolOptions{options.pinned_limit_bytes});
  constants_ = std::make_unique<Constants>(acl, Watched(DeviceMemorySource(acl, true)));
  copy_streams_ = std::make_unique<StreamPool>(acl, steps_, StreamPoolOptions{options.copy_stream_limit, 0});
  if (!acl.host_pointers()) {
    copy_path_.emplace(CopyPath{*copy_streams_, *pinned_, [this] { ReleaseFinished(); }});
    static_cast<void>(copy_streams_->MakeFirst());
  }
  streams_ = std::make_unique<StreamPool>(acl, steps_, StreamPoolOptions{options.stream_limit, options.executor_limit});
  stops_at_faults_ = streams_->MakeFirst().stops_at_faults();
}

Device::~Device() {
  // Without a check, which throws if the device is lost: whatever can be released should be.
  library_->Ignore(context_->MakeCurrent());
  const Deadline end = Deadline::clock::now() + kAbandonedWorkTimeout;
  for (const Abandoned& each : quarantine_) {
    // A reset waits for the device's kernels, so it would never return if one hangs.
    if (!each.work->Poll(MillisecondsUntil(end)).is_ended) set_device_->LeaveSet();
  }
  quarantine_.clear();
  copy_streams_.reset();
  streams_.reset();
  constants_.reset();
  pinned_.reset();
  memory_.reset();
}

Device::SetDevice::~SetDevice() {
  if (!is_left_set_) library_.Ignore(library_->aclrtResetDevice(index_));
}

template <typename Part>
void Device::RunPart(std::unique_ptr<Execution>& execution, const Part& part) {
  try {
    part(*execution);
  } catch (const AclError& error) {
    loss_.Record(error);
    Quarantine(std::move(execution));
    loss_.ThrowIfLost(error);
    throw;
  } catch (...) {
    Quarantine(std::move(execution));
    throw;
  }
}

bool Device::Execute(std::shared_ptr<const OperatorCall> call, Deadline deadline, Deadline wait_until) {
  ReleaseFinished();
  return Run(streams_->Lease(deadline, [this] { ReleaseFinished(); }), std::move(call), deadline, wait_until);
}

bool Device::ExecuteShort(std::shared_ptr<const OperatorCall> call, Deadline deadline) {
  loss_.ThrowIfLost();
  if (abandoned_count_ != 0) return false;
  MakeCurrent();
  std::optional<StreamLease> stream = streams_->TryLease();
  if (stream) Run(std::move(*stream), std::move(call), deadline, deadline);
  return stream.has_value();
}

bool Device::Run(StreamLease stream, std::shared_ptr<const OperatorCall> call, Deadline deadline, Deadline wait_until) {
  auto execution = std::make_unique<Execution>(execution_context(), std::move(stream), std::move(call));
  RunPart(execution, [&](Execution& each) {
    each.Start(deadline, wait_until);
    each.Finish(deadline, wait_until);
  });
  loss_.RecordSuccess();
  return execution->is_short();
}

void Device::ExecuteGroup(Group& group, std::size_t stream_limit, Deadline deadline, Deadline wait_until,
                          const std::atomic<bool>& is_cancelled) {
  std::list<std::pair<const Lane*, std::unique_ptr<Execution>>> running;
  const auto fail = [&group](const Lane& lane) {
    for (const std::size_t number : lane.steps) {
      std::exception_ptr& error = group.steps[number].error;
      if (!error) error = std::current_exception();
    }
  };
  const auto finish_oldest = [&] {
    auto [lane, execution] = std::move(running.front());
    running.pop_front();
    try {
      RunPart(execution, [&](Execution& each) { each.Finish(deadline, wait_until); });
      loss_.RecordSuccess();
    } catch (...) {
      fail(*lane);
    }
  };
  // A group returns its streams before it waits for one. Otherwise two groups could wait for each other for ever.
  const auto next_stream = [&]() -> StreamLease {
    for (;;) {
      while (!running.empty() && running.size() >= stream_limit) finish_oldest();
      if (std::optional<StreamLease> stream = streams_->TryLease()) return std::move(*stream);
      if (running.empty()) return streams_->Lease(deadline, [this] { ReleaseFinished(); });
      finish_oldest();
    }
  };
  const auto throw_if_over = [&] {
    const bool is_late = Deadline::clock::now() >= deadline;
    if (!is_late && !is_cancelled) return;
    throw NotBegun("the group", is_late ? "its deadline passed before the step began" : "its client has gone");
  };
  for (const Lane& lane : group.lanes) {
    try {
      throw_if_over();
      loss_.ThrowIfLost();
      MakeCurrent();
      if (running.empty()) ReleaseFinished();
      StreamLease stream = next_stream();
      // The wait for the stream may have been long.
      throw_if_over();
      // Its place first: without memory for that, work that is under way would end.
      decltype(running) started;
      started.emplace_back(&lane, std::make_unique<Execution>(execution_context(), std::move(stream), group, lane));
      RunPart(started.front().second, [&](Execution& each) { each.Start(deadline, wait_until); });
      running.splice(running.end(), started);
    } catch (...) {
      fail(lane);
    }
  }
  while (!running.empty()) finish_oldest();
}

StagingHandle Device::Stage(std::size_t size_bytes, Staging::Memory kind, std::shared_ptr<const void> owner) {
  ReleaseFinished();
  const CopyPath* path = copy_path_ ? &*copy_path_ : nullptr;
  return {new Staging({*library_, *context_, *memory_, path, steps_, loss_}, size_bytes, kind, std::move(owner)),
          StagingDeleter{this}};
}

void StagingDeleter::operator()(Staging* staging) const {
  device->library_->Ignore(device->context_->MakeCurrent());
  const StepWatch::Step step(device->steps_);
  device->Quarantine(std::unique_ptr<Staging>(staging));
}

void Device::Trim() {
  ReleaseFinished();
  memory_->Trim();
  pinned_->Trim();
}

void Device::DropExecutors() noexcept {
  // Without a check, which throws if the device is lost: executors are destroyed in any case.
  library_->Ignore(context_->MakeCurrent());
  streams_->DropExecutors();
}

DeviceMemory Device::Memory() {
  MakeCurrent();
  const StepWatch::Step step(steps_);
  return FreeMemory();
}

void Device::MakeCurrent() { library_->Check(context_->MakeCurrent(), "aclrtSetCurrentContext"); }

MemorySource Device::Watched(const MemorySource& source) {
  return {[this, source](void** address, std::size_t size) {
            const StepWatch::Step step(steps_);
            return source.allocate(address, size);
          },
          [this, source](void* address) {
            const StepWatch::Step step(steps_);
            return source.release(address);
          },
          source.charge, source.free_bytes, source.call};
}

DeviceMemory Device::FreeMemory() const {
  DeviceMemory memory;
  // A chip without HBM reports zeros for it, and its figures under DDR.
  for (const aclrtMemAttr kind : {ACL_HBM_MEM, ACL_DDR_MEM}) {
    library_->Check((*library_)->aclrtGetMemInfo(kind, &memory.free_bytes, &memory.total_bytes), "aclrtGetMemInfo");
    if (memory.total_bytes != 0) break;
  }
  return memory;
}

void Device::CheckSteps() {
  if (steps_.IsOverdue()) loss_.RecordLoss(ACL_ERROR_RT_AICORE_TIMEOUT);
  loss_.ThrowIfLost();
}

void Device::Quarantine(std::unique_ptr<DeviceWork> work) noexcept {
  const DeviceWork::State state = work->Poll(0);
  if (state.is_ended) return;
  loss_.RecordLoss(state.lost_code);
  const std::lock_guard lock(quarantine_mutex_);
  DeviceWork::Abandon(std::move(work), Deadline::clock::now() + hang_timeout_, quarantine_);
  ++abandoned_count_;
}

void Device::ReleaseFinished() {
  loss_.ThrowIfLost();
  MakeCurrent();
  if (abandoned_count_ == 0) return;
  // One thread at a time takes the list and asks without the lock: a query may hang in the driver, and freeing what the
  // work keeps alive may be slow.
  std::list<Abandoned> looked_at;
  {
    const std::lock_guard lock(quarantine_mutex_);
    looked_at.swap(quarantine_);
  }
  const std::size_t count = looked_at.size();
  looked_at.remove_if([this](const Abandoned& each) {
    const DeviceWork::State state = each.work->Poll(0);
    if (state.is_ended) return true;
    loss_.RecordLoss(state.lost_code);
    if (Deadline::clock::now() > each.hang_deadline) loss_.RecordLoss(ACL_ERROR_RT_AICORE_TIMEOUT);
    return false;
  });
  {
    const std::lock_guard lock(quarantine_mutex_);
    abandoned_count_ -= count - looked_at.size();
    quarantine_.splice(quarantine_.end(), looked_at);
  }
  loss_.ThrowIfLost();
}

}  // namespace aclgrad
