#include "execution.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>
#include <variant>

#include "error.h"

namespace aclgrad {
namespace {

constexpr int32_t kUnwritten = 0xFF;  // each byte

std::size_t Aligned(std::size_t size_bytes) {
  return (size_bytes + kCopyAlignment - 1) / kCopyAlignment * kCopyAlignment;
}

}  // namespace

Execution::Execution(const AclLibrary& library, MemoryPool& memory, MemoryPool& pinned_memory, StepWatch& steps,
                     const DeviceLoss& loss, StreamLease stream, std::shared_ptr<const OperatorCall> call)
    : library_(library),
      memory_(memory),
      pinned_memory_(pinned_memory),
      steps_(steps),
      loss_(loss),
      call_(std::move(call)),
      stream_(std::move(stream)) {}

void Execution::Start(Deadline deadline) {
  // A device that takes host addresses copies by itself at once. A stream would wake a thread for it.
  if (!library_.host_pointers()) pinned_ = pinned_memory_.TryAllocate(PinnedBytes());
  outputs_ = PrepareOutputs();
  const std::vector<void*> inputs = PrepareInputs();
  // Blocking copies and allocations may take long. A kernel that begins late would look as if it hung.
  if (Deadline::clock::now() >= deadline) throw NotBegun("the call", "its deadline passed before its kernel began");
  Launch(inputs);
}

void Execution::Finish(Deadline deadline, Deadline wait_until) {
  {
    // A kernel that may run for longer than the watch's limit after the deadline is overdue later.
    const StepWatch::Step step(steps_, std::max(deadline, wait_until - steps_.limit()));
    // A wait after its end would be a poll, and would write to the device's log.
    if (Deadline::clock::now() >= wait_until && stream_->IsDone() == false) {
      throw AclError(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "the call", "its deadline passed before the device was done");
    }
    const int code = library_->aclrtSynchronizeStreamWithTimeout(stream_->get(), MillisecondsUntil(wait_until));
    library_.Check(code, "aclrtSynchronizeStream");
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    if (IsInPlace(i)) continue;
    const OutputBytes& output = call_->outputs[i];
    if (arrivals_[i] != nullptr) {
      std::memcpy(output.address, arrivals_[i], output.size_bytes);
    } else {
      Copy(output.address, output.size_bytes, outputs_[i], output.size_bytes, ACL_MEMCPY_DEVICE_TO_HOST);
    }
  }
  loss_.ThrowIfLost();
}

DeviceWork::State Execution::Poll(int32_t timeout_ms) const noexcept {
  return is_queued_ ? stream_->Poll(timeout_ms) : State{true};
}

std::vector<void*> Execution::PrepareOutputs() {
  std::vector<void*> addresses;
  for (std::size_t i = 0; i < call_->outputs.size(); ++i) {
    addresses.push_back(PrepareOutput(call_->form->outputs[i], call_->outputs[i]));
  }
  return addresses;
}

void* Execution::PrepareOutput(const OutputForm& form, const OutputBytes& output) {
  if (form.use == OutputUse::kNull) return nullptr;
  ExpectSize("output", output.size_bytes, SizeBytes(library_, form.shape, form.dtype));
  const bool is_in_place = form.is_returned() && (output.is_on_device || library_.host_pointers());
  return is_in_place ? output.address : Allocate(output.size_bytes).address();
}

std::vector<void*> Execution::PrepareInputs() {
  std::vector<void*> addresses;
  for (std::size_t i = 0; i < call_->inputs.size(); ++i) {
    const InputForm& form = call_->form->inputs[i];
    void* const address = PrepareInput(form, call_->inputs[i]);
    addresses.push_back(form.is_copied ? PrepareCopy(form, address) : address);
  }
  return addresses;
}

void* Execution::PrepareInput(const InputForm& form, const InputBytes& input) {
  if (std::holds_alternative<Absent>(input)) return nullptr;
  const std::size_t size =
      SizeBytes(library_, form.view ? std::vector<int64_t>{form.view->count} : form.shape, form.dtype);
  if (const auto* device = std::get_if<DeviceBytes>(&input)) {
    ExpectSize("input", device->size_bytes, size);
    return device->address;
  }
  if (const auto* shape_only = std::get_if<ShapeOnly>(&input)) {
    if (!shape_only->output) return Allocate(size).address();
    ExpectSize("input that has the memory of an output", call_->outputs.at(*shape_only->output).size_bytes, size);
    return outputs_[*shape_only->output];
  }
  const auto& host = std::get<HostBytes>(input);
  const bool is_short = form.is_prefix && host.size_bytes < size;
  if (!is_short) ExpectSize("input", host.size_bytes, size);
  // A device that takes host addresses may read to the tensor's end. Operators only read their inputs; aclCreateTensor
  // has one kind of address for all tensors.
  if (!is_short && library_.host_pointers()) return const_cast<void*>(host.data);
  const PoolBlock& block = Allocate(size);
  void* const address = block.address();
  CopyIn(block, host);
  return address;
}

void* Execution::PrepareCopy(const InputForm& form, void* storage) {
  void* const address = Allocate(SizeBytes(library_, form.shape, form.dtype)).address();
  view_copies_.push_back({form, storage, address, {}, nullptr});
  return address;
}

bool Execution::IsInPlace(std::size_t output) const {
  return !call_->form->outputs[output].is_returned() || outputs_[output] == call_->outputs[output].address;
}

void Execution::CopyIn(const PoolBlock& block, const HostBytes& bytes) {
  std::byte* const pinned = TakePinned(bytes.size_bytes);
  if (pinned != nullptr) {
    std::memcpy(pinned, bytes.data, bytes.size_bytes);
    copies_in_.push_back({pinned, block.address(), bytes.size_bytes});
  } else {
    // Blocking: pageable memory makes an asynchronous copy block as well, and copy once more.
    Copy(block.address(), block.capacity(), bytes.data, bytes.size_bytes, ACL_MEMCPY_HOST_TO_DEVICE);
  }
}

std::size_t Execution::PinnedBytes() const {
  std::size_t inputs = 0;
  std::size_t outputs = 0;
  const auto add = [](std::size_t& sum, std::size_t size_bytes) {
    if (size_bytes <= kMostPinnedBytes) sum += Aligned(size_bytes);
  };
  for (const InputBytes& input : call_->inputs) {
    if (const auto* host = std::get_if<HostBytes>(&input)) add(inputs, host->size_bytes);
  }
  for (std::size_t i = 0; i < call_->outputs.size(); ++i) {
    const OutputBytes& output = call_->outputs[i];
    if (call_->form->outputs[i].is_returned() && !output.is_on_device) add(outputs, output.size_bytes);
  }
  return std::min(std::max(inputs, outputs), kMostPinnedBytes);
}

std::byte* Execution::TakePinned(std::size_t size_bytes) {
  const std::size_t end = pinned_bytes_ + Aligned(size_bytes);
  if (size_bytes == 0 || end > pinned_.capacity()) return nullptr;
  return static_cast<std::byte*>(pinned_.address()) + std::exchange(pinned_bytes_, end);
}

void Execution::Launch(const std::vector<void*>& inputs) {
  const StepWatch::Step step(steps_);
  const Operator& op = library_.FindOperator(call_->form->symbol);
  if (!view_copies_.empty()) PlanCopies(library_.FindOperator(kCopyOperator));
  ExecutorCache& executors = stream_->executors();
  std::string key;
  if (executors.is_on()) {
    key = ExecutorKey(*call_);
    if (KeptExecutor* kept = executors.Find(key)) {
      is_short_ = kept->is_short && view_copies_.empty();
      SetAddresses(*kept, inputs);
      return RunKept(op, key, *kept, Workspace(kept->workspace_bytes));
    }
  }
  planned_ = PlanCall(op, inputs);
  const uint64_t workspace_bytes = planned_.workspace_bytes;
  // Directly after phase 1: the library only knows the executor that this thread planned last.
  KeptExecutor* const kept = executors.Keep(call_->form->symbol, key, planned_);
  KeptExecutor& planned = kept != nullptr ? *kept : planned_;
  planned.is_short = library_.IsShort(planned.executor.get());
  is_short_ = planned.is_short && view_copies_.empty();
  // Before phase 2, which always consumes the executor: until then we have to destroy it.
  void* const workspace = Workspace(workspace_bytes);
  if (kept != nullptr) return RunKept(op, key, *kept, workspace);
  Queue(op, workspace, workspace_bytes, planned_.executor.release());
}

void* Execution::Workspace(std::size_t size_bytes) {
  workspace_bytes_ += size_bytes;
  if (workspace_bytes_ > call_->workspace_limit) throw WorkspaceTooLarge(workspace_bytes_);
  return size_bytes == 0 ? nullptr : Allocate(size_bytes).address();
}

void Execution::RunKept(const Operator& op, const std::string& key, const KeptExecutor& kept, void* workspace) {
  try {
    Queue(op, workspace, kept.workspace_bytes, kept.executor.get());
  } catch (...) {
    // Lives until the stream is idle: a part of it may have been launched.
    planned_ = stream_->executors().Take(key);
    throw;
  }
}

void Execution::SetAddresses(KeptExecutor& call, const std::vector<void*>& inputs) const {
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

KeptExecutor Execution::PlanCall(const Operator& op, const std::vector<void*>& inputs) const {
  const AclFunctions& acl = library_.functions();
  const CallForm& form = *call_->form;
  const auto make_tensor = [&](const std::vector<int64_t>& shape, aclDataType dtype, void* address,
                               const View* view = nullptr) {
    const aclFormat format = form.is_spatial ? SpatialFormat(shape.size()) : ACL_FORMAT_ND;
    return MakeTensor(acl, shape, dtype, format, address, view);
  };
  KeptExecutor planned;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool is_absent = std::holds_alternative<Absent>(call_->inputs[i]);
    const InputForm& input = form.inputs[i];
    const View* const view = input.is_strided() ? &*input.view : nullptr;
    planned.inputs.push_back(is_absent ? TensorHandle{} : make_tensor(input.shape, input.dtype, inputs[i], view));
  }
  std::vector<bool> wanted;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const OutputForm& output = form.outputs[i];
    const bool is_null = output.use == OutputUse::kNull;
    planned.outputs.push_back(is_null ? TensorHandle{} : make_tensor(output.shape, output.dtype, outputs_[i]));
    wanted.push_back(output.is_returned());
  }
  static std::mutex alone;
  std::unique_lock<std::mutex> lock(alone, std::defer_lock);
  if (form.is_planned_alone) lock.lock();
  Plan(op, planned, wanted, form.attributes);
  return planned;
}

void Execution::PlanCopies(const Operator& copy_operator) {
  const AclFunctions& acl = library_.functions();
  for (ViewCopy& copy : view_copies_) {
    const auto& [shape, dtype, is_prefix, view, is_copied] = copy.form;
    copy.planned.inputs.push_back(MakeTensor(acl, shape, dtype, ACL_FORMAT_ND, copy.storage, &*view));
    copy.planned.outputs.push_back(MakeTensor(acl, shape, dtype, ACL_FORMAT_ND, copy.address));
    Plan(copy_operator, copy.planned, {true}, {});
    copy.workspace = Workspace(copy.planned.workspace_bytes);
  }
}

void Execution::Plan(const Operator& op, KeptExecutor& call, const std::vector<bool>& wanted,
                     const std::vector<Attribute>& attributes) const {
  ArgumentReader reader(library_.functions(), call.inputs, call.outputs, wanted, attributes);
  library_.CheckPhase1(op.plan(reader));
  call.values = reader.TakeValues();
  call.executor = {reader.executor(), {library_->aclDestroyAclOpExecutor}};
  call.workspace_bytes = reader.workspace_size();
}

void Execution::FillOutputs() const {
  // A library that takes host addresses promises to write outputs whole.
  if (library_.host_pointers()) return;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const std::size_t size_bytes = call_->outputs[i].size_bytes;
    if (call_->form->outputs[i].use != OutputUse::kReturned || size_bytes == 0) continue;
    library_.Check(library_->aclrtMemsetAsync(outputs_[i], size_bytes, kUnwritten, size_bytes, stream_->get()),
                   "aclrtMemsetAsync");
  }
}

void Execution::Queue(const Operator& op, void* workspace, uint64_t workspace_bytes, aclOpExecutor* executor) {
  is_queued_ = true;
  FillOutputs();
  for (const PinnedCopy& each : copies_in_) {
    QueueCopy(each.device, each.pinned, each.size_bytes, ACL_MEMCPY_HOST_TO_DEVICE);
  }
  const Operator* const copy_operator = view_copies_.empty() ? nullptr : &library_.FindOperator(kCopyOperator);
  for (ViewCopy& copy : view_copies_) {
    const KeptExecutor& planned = copy.planned;
    library_.Check(
        copy_operator->launch(copy.workspace, planned.workspace_bytes, copy.planned.executor.release(), stream_->get()),
        kCopyOperator);
  }
  library_.Check(op.launch(workspace, workspace_bytes, executor, stream_->get()), "phase 2");
  // The stream has read the inputs before it writes the outputs, so these take the same pinned memory.
  pinned_bytes_ = 0;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const std::size_t size_bytes = call_->outputs[i].size_bytes;
    std::byte* const pinned = IsInPlace(i) ? nullptr : TakePinned(size_bytes);
    if (pinned != nullptr) QueueCopy(pinned, outputs_[i], size_bytes, ACL_MEMCPY_DEVICE_TO_HOST);
    arrivals_.push_back(pinned);
  }
}

void Execution::QueueCopy(void* target, const void* source, std::size_t size_bytes, aclrtMemcpyKind kind) const {
  library_.Check(library_->aclrtMemcpyAsync(target, size_bytes, source, size_bytes, kind, stream_->get()),
                 "aclrtMemcpyAsync");
}

void Execution::Copy(void* target, std::size_t capacity, const void* source, std::size_t size_bytes,
                     aclrtMemcpyKind kind) const {
  if (size_bytes == 0) return;
  const StepWatch::Step step(steps_);
  library_.Check(library_->aclrtMemcpy(target, capacity, source, size_bytes, kind), "aclrtMemcpy");
}

const PoolBlock& Execution::Allocate(std::size_t size_bytes) {
  return blocks_.emplace_back(memory_.Allocate(size_bytes));
}

}  // namespace aclgrad
