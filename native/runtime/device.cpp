#include "device.h"

#include <utility>

namespace aclgrad {
namespace {

constexpr std::size_t kDefaultPoolTenths = 9;
// How long the destructor waits for work that was given up.
constexpr int32_t kAbandonedWorkTimeoutMs = 5000;

}  // namespace

Device::Device(std::shared_ptr<const AclLibrary> library, int index, const DeviceOptions& options)
    : library_(std::move(library)), index_(index) {
  const AclLibrary& acl = *library_;
  acl.Check(acl->aclrtSetDevice(index), "aclrtSetDevice");
  acl.Check(acl->aclrtGetCurrentContext(&context_), "aclrtGetCurrentContext");
  const char* soc_name = acl->aclrtGetSocName();
  soc_name_ = soc_name != nullptr ? soc_name : "";
  const std::size_t limit = options.pool_limit_bytes.value_or(FreeMemory().free_bytes / 10 * kDefaultPoolTenths);
  memory_ = std::make_unique<MemoryPool>(acl, limit);
  streams_ = std::make_unique<StreamPool>(acl, options.stream_limit);
}

Device::~Device() {
  // Not MakeCurrent: a lost device answers with an error, and what can be released still should be.
  static_cast<void>((*library_)->aclrtSetCurrentContext(context_));
  for (const auto& execution : quarantine_) execution->Wait(kAbandonedWorkTimeoutMs);
  quarantine_.clear();
  streams_.reset();
  memory_.reset();
  static_cast<void>((*library_)->aclrtResetDevice(index_));
}

void Device::Execute(const std::string& symbol, const OperatorCall& call, int32_t timeout_ms) {
  MakeCurrent();
  ReleaseFinished();
  auto execution = std::make_unique<Execution>(*library_, *memory_, streams_->Lease());
  try {
    execution->Run(library_->FindOperator(symbol), call, timeout_ms);
  } catch (...) {
    if (!execution->Finished()) {
      const std::lock_guard lock(quarantine_mutex_);
      quarantine_.push_back(std::move(execution));
    }
    throw;
  }
}

void Device::Trim() {
  MakeCurrent();
  ReleaseFinished();
  memory_->Trim();
}

DeviceMemory Device::Memory() const {
  MakeCurrent();
  return FreeMemory();
}

void Device::MakeCurrent() const {
  library_->Check((*library_)->aclrtSetCurrentContext(context_), "aclrtSetCurrentContext");
}

DeviceMemory Device::FreeMemory() const {
  DeviceMemory memory;
  // A chip without HBM answers zeros for it and has its figures under DDR.
  for (const aclrtMemAttr kind : {ACL_HBM_MEM, ACL_DDR_MEM}) {
    library_->Check((*library_)->aclrtGetMemInfo(kind, &memory.free_bytes, &memory.total_bytes), "aclrtGetMemInfo");
    if (memory.total_bytes != 0) break;
  }
  return memory;
}

void Device::ReleaseFinished() {
  const std::lock_guard lock(quarantine_mutex_);
  quarantine_.remove_if([](const auto& execution) { return execution->Finished(); });
}

}  // namespace aclgrad
