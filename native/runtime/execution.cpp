#include "execution.h"

#include <mutex>
#include <utility>
#include <variant>

#include "call_sizes.h"
#include "error.h"

namespace aclgrad {

Execution::Execution(const AclLibrary& library, MemoryPool& memory, StepWatch& steps, const DeviceLoss& loss,
                     StreamLease stream, std::shared_ptr<const OperatorCall> call)
    : library_(library),
      memory_(memory),
      steps_(steps),
      loss_(loss),
      call_(std::move(call)),
      stream_(std::move(stream)) {}

void Execution::Start(Deadline deadline) {
  const std::vector<void*> inputs = PrepareInputs();
  outputs_ = PrepareOutputs();
  // Copies and allocations may take long. A kernel that begins late would look as if it hung.
  if (Deadline::clock::now() >= deadline) throw NotBegun("the call", "its deadline passed before its kernel began");
  Launch(inputs);
}

void Execution::Finish(Deadline deadline, Deadline wait_until) {
  {
    const StepWatch::Step step(steps_, deadline);
    // A wait after its end would be a poll, and would write to the device's log.
    if (Deadline::clock::now() >= wait_until && stream_->IsDone() == false) {
      throw AclError(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "the call", "its deadline passed before the device was done");
    }
    const int code = library_->aclrtSynchronizeStreamWithTimeout(stream_->get(), MillisecondsUntil(wait_until));
    library_.Check(code, "aclrtSynchronizeStream");
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const OutputView& view = call_->outputs[i];
    if (!view.is_returned() || outputs_[i] == view.address) continue;
    Copy(view.address, view.size_bytes, outputs_[i], view.size_bytes, ACL_MEMCPY_DEVICE_TO_HOST);
  }
  loss_.ThrowIfLost();
}

DeviceWork::State Execution::Poll(int32_t timeout_ms) const noexcept {
  return launched_ ? stream_->Poll(timeout_ms) : State{true};
}

std::vector<void*> Execution::PrepareInputs() {
  std::vector<void*> addresses;
  for (const InputView& input : call_->inputs) addresses.push_back(PrepareInput(input));
  return addresses;
}

void* Execution::PrepareInput(const InputView& input) {
  if (input.is_absent()) return nullptr;
  const std::size_t size = SizeBytes(library_, input.shape, input.dtype);
  if (const auto* device = std::get_if<DeviceBytes>(&input.values)) {
    ExpectSize("input", device->size_bytes, size);
    return device->address;
  }
  const auto* host = std::get_if<HostBytes>(&input.values);
  if (host == nullptr) return Allocate(size).address();
  const bool is_short = input.is_prefix && host->size_bytes < size;
  if (!is_short) ExpectSize("input", host->size_bytes, size);
  // A device that takes host addresses may read to the tensor's end. Operators only read their inputs; aclCreateTensor
  // has one kind of address for all tensors.
  if (!is_short && library_.host_pointers()) return const_cast<void*>(host->data);
  const PoolBlock& block = Allocate(size);
  // Blocking, because the host memory is pageable: an asynchronous copy would block as well and copy once more.
  Copy(block.address(), block.capacity(), host->data, host->size_bytes, ACL_MEMCPY_HOST_TO_DEVICE);
  return block.address();
}

std::vector<void*> Execution::PrepareOutputs() {
  std::vector<void*> addresses;
  for (const OutputView& output : call_->outputs) addresses.push_back(PrepareOutput(output));
  return addresses;
}

void* Execution::PrepareOutput(const OutputView& output) {
  if (output.use == OutputUse::kNull) return nullptr;
  ExpectSize("output", output.size_bytes, SizeBytes(library_, output.shape, output.dtype));
  const bool is_in_place = output.is_returned() && (output.is_on_device || library_.host_pointers());
  return is_in_place ? output.address : Allocate(output.size_bytes).address();
}

void Execution::Launch(const std::vector<void*>& inputs) {
  const StepWatch::Step step(steps_);
  const Operator& op = library_.FindOperator(call_->symbol);
  ExecutorCache& executors = stream_->executors();
  std::string key;
  if (executors.is_on()) {
    key = CacheKey(*call_);
    if (PlannedCall* kept = executors.Find(key)) {
      SetAddresses(*kept, inputs);
      return RunKept(op, key, *kept, stream_->Workspace(kept->workspace_bytes));
    }
  }
  planned_ = Plan(op, inputs);
  // Before phase 2, which always consumes the executor: until then we have to destroy it.
  const uint64_t workspace_bytes = planned_.workspace_bytes;
  void* workspace = stream_->Workspace(workspace_bytes);
  if (const PlannedCall* kept = executors.Keep(call_->symbol, key, planned_)) {
    return RunKept(op, key, *kept, workspace);
  }
  RunPhase2(op, workspace, workspace_bytes, planned_.executor.release());
}

void Execution::RunKept(const Operator& op, const std::string& key, const PlannedCall& kept, void* workspace) {
  try {
    RunPhase2(op, workspace, kept.workspace_bytes, kept.executor.get());
  } catch (...) {
    // Lives until the stream is idle: a part of it may have been launched.
    planned_ = stream_->executors().Take(key);
    throw;
  }
}

void Execution::SetAddresses(PlannedCall& call, const std::vector<void*>& inputs) const {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (call.inputs[i] == nullptr) continue;
    library_.Check(library_->aclSetInputTensorAddr(call.executor.get(), i, call.inputs[i].get(), inputs[i]),
                   "aclSetInputTensorAddr");
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    if (call.outputs[i] == nullptr) continue;
    library_.Check(library_->aclSetOutputTensorAddr(call.executor.get(), i, call.outputs[i].get(), outputs_[i]),
                   "aclSetOutputTensorAddr");
  }
}

PlannedCall Execution::Plan(const Operator& op, const std::vector<void*>& inputs) const {
  const AclFunctions& acl = library_.functions();
  const auto make_tensor = [&](const std::vector<int64_t>& shape, aclDataType dtype, void* address) {
    const aclFormat format = call_->is_spatial ? SpatialFormat(shape.size()) : ACL_FORMAT_ND;
    return MakeTensor(acl, shape, dtype, format, address);
  };
  PlannedCall planned;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const InputView& view = call_->inputs[i];
    planned.inputs.push_back(view.is_absent() ? TensorHandle{} : make_tensor(view.shape, view.dtype, inputs[i]));
  }
  std::vector<bool> wanted;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const OutputView& view = call_->outputs[i];
    const bool is_null = view.use == OutputUse::kNull;
    planned.outputs.push_back(is_null ? TensorHandle{} : make_tensor(view.shape, view.dtype, outputs_[i]));
    wanted.push_back(view.is_returned());
  }
  ArgumentReader reader(acl, planned.inputs, planned.outputs, wanted, call_->attributes);
  {
    static std::mutex alone;
    std::unique_lock<std::mutex> lock(alone, std::defer_lock);
    if (call_->is_planned_alone) lock.lock();
    library_.Check(op.plan(reader), "phase 1");
  }
  planned.values = reader.TakeValues();
  planned.executor = {reader.executor(), {acl.aclDestroyAclOpExecutor}};
  planned.workspace_bytes = reader.workspace_size();
  return planned;
}

void Execution::RunPhase2(const Operator& op, void* workspace, uint64_t workspace_bytes, aclOpExecutor* executor) {
  launched_ = true;
  library_.Check(op.launch(workspace, workspace_bytes, executor, stream_->get()), "phase 2");
}

void Execution::Copy(void* target, std::size_t capacity, const void* source, std::size_t size_bytes,
                     aclrtMemcpyKind kind) const {
  if (size_bytes == 0) return;
  const StepWatch::Step step(steps_);
  library_.Check(library_->aclrtMemcpy(target, capacity, source, size_bytes, kind), "aclrtMemcpy");
}

const PoolBlock& Execution::Allocate(std::size_t size_bytes) {
  return blocks_.emplace_back(memory_.Allocate(size_bytes, stream_->get()));
}

}  // namespace aclgrad
