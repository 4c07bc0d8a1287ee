// Everything that lives between aclInit and aclFinalize.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "device/context.h"
#include "device/event.h"
#include "device/handle_table.h"
#include "device/host_device.h"
#include "device/host_stream.h"
#include "device/memory.h"
#include "faults/fault_plan.h"
#include "settings/config.h"

namespace acl_host {

class Runtime {
 public:
  // Throws if aclInit was not called.
  [[nodiscard]] static std::shared_ptr<Runtime> Current();
  // The same, but makes one of the settings of ACL_HOST_CONFIG if there is none: CANN's runtime counts devices and sets
  // one without aclInit, too.
  [[nodiscard]] static std::shared_ptr<Runtime> CurrentOrNew();
  // False once aclInit or aclFinalize has put another one, or none, in its place.
  [[nodiscard]] static bool IsCurrent(const std::shared_ptr<Runtime>& runtime);
  // Counts its calls, including those that throw because the runtime is already running.
  static void Start(const char* config_path);
  // Undoes one Start, stops the runtime with the last one, and returns how many are left.
  static uint64_t Release();
  static void Stop();

  explicit Runtime(const Config& config);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  [[nodiscard]] const Config& config() const { return config_; }
  [[nodiscard]] Product product() const { return config_.product; }
  [[nodiscard]] int32_t device_count() const { return config_.devices; }
  [[nodiscard]] Memory& memory() { return memory_; }
  [[nodiscard]] FaultPlan& faults() { return faults_; }
  [[nodiscard]] HandleTable<Event>& events() { return events_; }
  [[nodiscard]] HostDevice& device(int32_t id);

  // Contexts. A thread without one, or whose context was destroyed, has the default device's if aclInit's file names
  // one, and otherwise none: ACL_ERROR_RT_CONTEXT_NULL.
  static constexpr const char* kNoContext = "this thread has no context; call aclrtSetDevice first";
  [[nodiscard]] std::shared_ptr<Context> CurrentContext();
  // The context that the thread has already.
  [[nodiscard]] std::shared_ptr<Context> OwnContextOrNull() const;
  void SetCurrentContext(void* handle);
  void* CreateContext(HostDevice& device);
  void DestroyContext(void* handle);
  void UseDevice(int32_t id);
  void ReleaseDevice(int32_t id);
  // Drops the work of all of the device's contexts and makes a lost device usable again.
  void ReleaseDeviceForce(int32_t id);

  // Whether the device has its default context.
  [[nodiscard]] bool IsInUse(int32_t id);
  [[nodiscard]] bool IsAtWork(int32_t id);

  // As CurrentContext and FindStream; both throw if the device is lost.
  [[nodiscard]] std::shared_ptr<Context> UsableContext();

  // Streams of the calling thread's context; null means its default stream.
  [[nodiscard]] std::shared_ptr<HostStream> FindStream(void* handle);
  [[nodiscard]] void* CreateStream();
  void DestroyStream(void* handle, HostStream::Pending pending);
  [[nodiscard]] std::vector<std::shared_ptr<HostStream>> StreamsOf(const HostDevice& device) const;

 private:
  [[nodiscard]] static std::shared_ptr<Runtime> Make(const Config& config);
  void* AddContext(HostDevice& device, bool is_default);
  // False if another thread removed it.
  [[nodiscard]] bool RemoveContext(void* handle, HostStream::Pending pending);
  [[nodiscard]] std::shared_ptr<HostStream> OwnStream(void* handle);
  void CloseStreams();

  const Config config_;
  Memory memory_;
  FaultPlan faults_;
  std::atomic<bool> was_used_{false};  // whether there was ever a context
  std::vector<std::unique_ptr<HostDevice>> devices_;
  HandleTable<Context> contexts_{"context"};
  HandleTable<HostStream> streams_{"stream"};
  HandleTable<Event> events_{"event"};
};

}  // namespace acl_host
