#include "device/runtime.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "errors/exceptions.h"
#include "faults/signal_handlers.h"

namespace acl_host {
namespace {

struct Process {
  std::mutex mutex;
  std::shared_ptr<Runtime> runtime;
  uint64_t starts = 0;
};

// Never destroyed: if a program exits without aclFinalize, static destructors would otherwise join its stream threads
// or free memory that they use.
Process& TheProcess() {
  static Process* const process = new Process;
  return *process;
}

// Handles are unique in the process, so a context of an earlier runtime is not found.
thread_local void* current_context = nullptr;

}  // namespace

std::shared_ptr<Runtime> Runtime::Current() {
  Process& process = TheProcess();
  const std::lock_guard<std::mutex> lock(process.mutex);
  if (!process.runtime) throw Error(ACL_ERROR_UNINITIALIZE, "call aclInit first");
  return process.runtime;
}

std::shared_ptr<Runtime> Runtime::CurrentOrNew() {
  Process& process = TheProcess();
  const std::lock_guard<std::mutex> lock(process.mutex);
  if (!process.runtime) process.runtime = Make(LoadConfig(nullptr));
  return process.runtime;
}

bool Runtime::IsCurrent(const std::shared_ptr<Runtime>& runtime) {
  Process& process = TheProcess();
  const std::lock_guard<std::mutex> lock(process.mutex);
  return process.runtime == runtime;
}

void Runtime::Start(const char* config_path) {
  Process& process = TheProcess();
  const std::lock_guard<std::mutex> lock(process.mutex);
  if (process.starts > 0) {
    ++process.starts;
    throw Error(ACL_ERROR_REPEAT_INITIALIZE, "ACL is initialised already");
  }
  const Config config = LoadConfig(config_path);
  // The settings stay as they are once a device was in use: the program may hold its memory.
  if (!process.runtime || !process.runtime->was_used_) process.runtime = Make(config);
  process.starts = 1;
}

std::shared_ptr<Runtime> Runtime::Make(const Config& config) {
  auto runtime = std::make_shared<Runtime>(config);
  KeepAllMessages(config.card_messages);
  if (config.signal_handlers) ChainSignalHandlers();
  return runtime;
}

uint64_t Runtime::Release() {
  Process& process = TheProcess();
  {
    const std::lock_guard<std::mutex> lock(process.mutex);
    if (process.starts > 1) return --process.starts;
  }
  Stop();
  return 0;
}

void Runtime::Stop() {
  Process& process = TheProcess();
  std::shared_ptr<Runtime> ending;
  {
    const std::lock_guard<std::mutex> lock(process.mutex);
    if (process.starts > 0) ending = std::exchange(process.runtime, nullptr);
    process.starts = 0;
  }
  if (!ending) throw Error(ACL_ERROR_REPEAT_FINALIZE, "ACL is not initialised");
  // Threads that wait for a stream keep the runtime alive; this ends their wait.
  ending->CloseStreams();
}

Runtime::Runtime(const Config& config)
    : config_(config),
      memory_(config.devices, config.memory_bytes, config.memory_elsewhere_bytes),
      faults_(config.faults, config.faults_after_launches) {
  for (int32_t id = 0; id < config.devices; ++id) devices_.push_back(std::make_unique<HostDevice>(id, config));
  if (config.default_device) (void)device(*config.default_device);
}

Runtime::~Runtime() {
  CloseStreams();  // before joining any: a stream may be waiting for an event that another one records
  for (const auto& [handle, stream] : streams_.All()) stream->Join();
}

void Runtime::CloseStreams() {
  for (const auto& [handle, stream] : streams_.All()) stream->Close(HostStream::Pending::kDrop);
}

HostDevice& Runtime::device(int32_t id) {
  if (id < 0 || id >= config_.devices) {
    const std::string visible =
        config_.devices == 0 ? "none is visible" : "the devices are 0 to " + std::to_string(config_.devices - 1);
    throw Error(ACL_ERROR_RT_INVALID_DEVICEID, "there is no device " + std::to_string(id) + "; " + visible);
  }
  return *devices_[static_cast<size_t>(id)];
}

std::shared_ptr<Context> Runtime::CurrentContext() {
  auto context = OwnContextOrNull();
  if (!context && config_.default_device) {
    UseDevice(*config_.default_device);
    context = OwnContextOrNull();
  }
  if (!context) throw Error(ACL_ERROR_RT_CONTEXT_NULL, kNoContext);
  return context;
}

std::shared_ptr<Context> Runtime::OwnContextOrNull() const { return contexts_.FindOrNull(current_context); }

bool Runtime::IsInUse(int32_t id) {
  HostDevice& target = device(id);
  const std::lock_guard<std::mutex> lock(target.mutex);
  return target.uses > 0;
}

bool Runtime::IsAtWork(int32_t id) {
  const auto streams = StreamsOf(device(id));
  return std::any_of(streams.begin(), streams.end(), [](const auto& stream) { return !stream->Idle(); });
}

void Runtime::SetCurrentContext(void* handle) { current_context = contexts_.Find(handle)->handle; }

void* Runtime::CreateContext(HostDevice& device) {
  current_context = AddContext(device, false);
  return current_context;
}

void Runtime::DestroyContext(void* handle) {
  if (contexts_.Find(handle)->is_default) {
    throw Error(ACL_ERROR_RT_PARAM_INVALID, "a default context cannot be destroyed; call aclrtResetDevice");
  }
  if (!RemoveContext(handle, HostStream::Pending::kRun)) {
    throw Error(ACL_ERROR_RT_INVALID_HANDLE, "the context is being destroyed already");
  }
}

void Runtime::UseDevice(int32_t id) {
  HostDevice& target = device(id);
  const std::lock_guard<std::mutex> lock(target.mutex);
  if (target.uses == 0) target.default_context = AddContext(target, true);
  ++target.uses;
  current_context = target.default_context;
}

void Runtime::ReleaseDevice(int32_t id) {
  HostDevice& target = device(id);
  const std::lock_guard<std::mutex> lock(target.mutex);
  if (target.uses == 0) {
    throw Error(ACL_ERROR_RT_CONTEXT_NULL, "device " + std::to_string(id) + " is not in use");
  }
  if (--target.uses != 0) return;
  void* const context = std::exchange(target.default_context, nullptr);
  (void)RemoveContext(context, HostStream::Pending::kRun);
}

void Runtime::ReleaseDeviceForce(int32_t id) {
  HostDevice& target = device(id);
  const std::lock_guard<std::mutex> lock(target.mutex);
  if (target.uses == 0) {
    throw Error(ACL_ERROR_RT_CONTEXT_NULL, "device " + std::to_string(id) + " is not in use");
  }
  for (const auto& [handle, context] : contexts_.All()) {
    if (&context->device == &target) (void)RemoveContext(handle, HostStream::Pending::kDrop);
  }
  target.default_context = nullptr;
  target.uses = 0;
  target.Recover();
}

std::shared_ptr<Context> Runtime::UsableContext() {
  auto context = CurrentContext();
  context->device.CheckUsable();
  return context;
}

std::shared_ptr<HostStream> Runtime::FindStream(void* handle) {
  auto stream = OwnStream(handle);
  stream->device().CheckUsable();
  return stream;
}

std::shared_ptr<HostStream> Runtime::OwnStream(void* handle) {
  const std::shared_ptr<Context> context = CurrentContext();
  if (handle == nullptr) return context->default_stream;
  std::shared_ptr<HostStream> stream = streams_.Find(handle);
  if (stream->context() != context->handle) {
    throw Error(ACL_ERROR_RT_STREAM_CONTEXT, "the stream belongs to another context than this thread's");
  }
  return stream;
}

void* Runtime::CreateStream() {
  const std::shared_ptr<Context> context = UsableContext();
  return streams_.Add(std::make_shared<HostStream>(context->device, context->handle));
}

void Runtime::DestroyStream(void* handle, HostStream::Pending pending) {
  if (handle == nullptr) throw Error(ACL_ERROR_INVALID_PARAM, "a default stream cannot be destroyed");
  const std::shared_ptr<HostStream> stream = OwnStream(handle);
  if (!streams_.Remove(handle)) throw Error(ACL_ERROR_RT_INVALID_HANDLE, "the stream is being destroyed already");
  stream->Close(pending);
  stream->Join();
}

std::vector<std::shared_ptr<HostStream>> Runtime::StreamsOf(const HostDevice& device) const {
  std::vector<std::shared_ptr<HostStream>> streams;
  for (auto& [handle, stream] : streams_.All()) {
    if (&stream->device() == &device) streams.push_back(std::move(stream));
  }
  return streams;
}

void* Runtime::AddContext(HostDevice& device, bool is_default) {
  // Before there is work: a kernel is no place to find out that the system has no more threads.
  device.pool.Start();
  was_used_ = true;
  const auto context = std::make_shared<Context>(device, is_default);
  void* const handle = contexts_.Add(context);
  context->handle = handle;
  try {
    context->default_stream = std::make_shared<HostStream>(device, handle);
    (void)streams_.Add(context->default_stream);
  } catch (...) {
    (void)contexts_.Remove(handle);
    throw;
  }
  return handle;
}

bool Runtime::RemoveContext(void* handle, HostStream::Pending pending) {
  if (!contexts_.Remove(handle)) return false;
  std::vector<std::shared_ptr<HostStream>> closing;
  for (auto& [stream_handle, stream] : streams_.All()) {
    if (stream->context() != handle || !streams_.Remove(stream_handle)) continue;
    stream->Close(pending);
    closing.push_back(std::move(stream));
  }
  for (const auto& stream : closing) stream->Join();
  return true;
}

}  // namespace acl_host
