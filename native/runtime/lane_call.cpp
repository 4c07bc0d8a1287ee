#include "lane_call.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>
#include <variant>

#include "error.h"

namespace aclgrad {
namespace {

constexpr int32_t kUnwritten = 0xFF;  // each byte

// Phase 1, for the tensors that the call has.
void RunPhase1(const AclLibrary& library, const Operator& op, KeptExecutor& call, const std::vector<bool>& wanted,
               const std::vector<Attribute>& attributes) {
  ArgumentReader reader(library.functions(), call.inputs, call.outputs, wanted, attributes);
  library.CheckPhase1(op.plan(reader));
  call.values = reader.TakeValues();
  call.executor = {reader.executor(), {library->aclDestroyAclOpExecutor}};
  call.workspace_bytes = reader.workspace_size();
}

std::size_t StorageBytes(const AclLibrary& library, const InputForm& form) {
  return form.view ? SizeBytes(library, {form.view->count}, form.dtype) : SizeBytes(library, form.shape, form.dtype);
}

// Whether the host gets the output, and from somewhere else.
bool IsCopied(const OutputBytes& output, const void* address) {
  return output.host != nullptr && output.host != address;
}

bool HasOwnMemory(const InputForm& form, const InputBytes& input) {
  const auto* const shape_only = std::get_if<ShapeOnly>(&input);
  return shape_only != nullptr && !shape_only->output && !form.in_place;
}

}  // namespace

std::size_t LaneCall::ScratchBytes(const AclLibrary& library) const {
  std::size_t sum = 0;
  const auto add = [&sum](std::size_t size_bytes) {
    if (__builtin_add_overflow(sum, LaneMemory::ScratchBytes(size_bytes), &sum)) sum = SIZE_MAX;
  };
  if (call_->is_empty) return 0;
  for (std::size_t i = 0; i < call_->inputs.size(); ++i) {
    const InputForm& form = call_->form->inputs[i];
    if (HasOwnMemory(form, call_->inputs[i])) add(StorageBytes(library, form));
    if (form.is_copied) add(SizeBytes(library, form.shape, form.dtype));
  }
  for (std::size_t i = 0; i < call_->outputs.size(); ++i) {
    if (call_->form->outputs[i].use == OutputUse::kScratch) add(call_->outputs[i].size_bytes);
  }
  return sum;
}

void LaneCall::Plan(const AclLibrary& library, LaneMemory& memory, LaneCopies& copies, ExecutorCache& executors) {
  outputs_.reserve(call_->outputs.size());
  for (std::size_t i = 0; i < call_->outputs.size(); ++i) {
    outputs_.push_back(PrepareOutput(library, memory, call_->form->outputs[i], call_->outputs[i]));
  }
  if (call_->is_empty) return;
  if (HasJoinedInputs(*call_)) return;
  inputs_.reserve(call_->inputs.size());
  for (std::size_t i = 0; i < call_->inputs.size(); ++i) {
    const InputForm& form = call_->form->inputs[i];
    void* address = PrepareInput(library, memory, copies, form, call_->inputs[i]);
    if (form.is_copied) {
      void* const storage = std::exchange(address, memory.AllocateForStep(SizeBytes(library, form.shape, form.dtype)));
      input_copies_.push_back({form, storage, address, {}});
    }
    inputs_.push_back(form.in_place ? BeginOutput(form, call_->inputs[i], address) : address);
  }
  operator_ = &library.FindOperator(call_->form->symbol);
  if (!input_copies_.empty()) PlanInputCopies(library);
  PlanOperator(library, executors);
  if (workspace_bytes_ > call_->workspace_limit) throw WorkspaceTooLarge(workspace_bytes_);
}

void* LaneCall::PrepareOutput(const AclLibrary& library, LaneMemory& memory, const OutputForm& form,
                              const OutputBytes& output) const {
  if (form.use == OutputUse::kNull) return nullptr;
  ExpectSize("output", output.size_bytes, SizeBytes(library, form.shape, form.dtype));
  if (const auto* const place = std::get_if<Place>(&output.target)) return memory.At(*place);
  if (const auto* const device = std::get_if<DeviceBytes>(&output.target)) return device->address;
  if (!form.is_returned()) return call_->is_empty ? nullptr : memory.AllocateForStep(output.size_bytes);
  return library.host_pointers() || call_->is_empty ? output.host : memory.Allocate(output.size_bytes);
}

void* LaneCall::PrepareInput(const AclLibrary& library, LaneMemory& memory, LaneCopies& copies, const InputForm& form,
                             const InputBytes& input) {
  if (std::holds_alternative<Absent>(input)) return nullptr;
  const std::size_t size = StorageBytes(library, form);
  const auto expect = [size](std::size_t given_bytes) {
    // A view of nothing may lie over any bytes.
    if (size != 0) ExpectSize("input", given_bytes, size);
  };
  if (const auto* const device = std::get_if<DeviceBytes>(&input)) {
    expect(device->size_bytes);
    return device->address;
  }
  if (const auto* const place = std::get_if<Place>(&input)) {
    expect(place->size_bytes);
    return memory.At(*place);
  }
  if (const auto* const constant = std::get_if<Constant>(&input)) {
    expect((*constant)->size());
    return memory.At(*constant);
  }
  if (const auto* const shape_only = std::get_if<ShapeOnly>(&input)) {
    if (form.in_place) return nullptr;
    if (!shape_only->output) return memory.AllocateForStep(size);
    ExpectSize("input that has the memory of an output", call_->outputs.at(*shape_only->output).size_bytes, size);
    return outputs_[*shape_only->output];
  }
  HostBytes host = std::get<HostBytes>(input);
  if (size == 0) host.size_bytes = 0;
  const bool is_short = form.is_prefix && host.size_bytes < size;
  if (!is_short) expect(host.size_bytes);
  // A device that takes host addresses may read to the tensor's end. Operators only read their inputs; aclCreateTensor
  // has one kind of address for all tensors.
  if (!is_short && library.host_pointers()) return const_cast<void*>(host.data);
  const auto [number, address] = copies.AddInput(host, size);
  copies_in_.push_back(number);
  return address;
}

void* LaneCall::BeginOutput(const InputForm& form, const InputBytes& input, void* address) {
  void* const output = outputs_.at(form.in_place->output);
  // Without values, the operator writes all of it.
  if (!std::holds_alternative<ShapeOnly>(input)) input_copies_.push_back({form, address, output, {}});
  return output;
}

void LaneCall::PlanInputCopies(const AclLibrary& library) {
  const AclFunctions& acl = library.functions();
  const Operator& copy_operator = library.FindOperator(kCopyOperator);
  for (InputCopy& copy : input_copies_) {
    const InputForm& form = copy.form;
    const View* const view = form.view ? &*form.view : nullptr;
    // The first one is written.
    copy.planned.inputs.push_back(MakeTensor(acl, form.shape, form.dtype, ACL_FORMAT_ND, copy.address));
    copy.planned.inputs.push_back(MakeTensor(acl, form.shape, form.dtype, ACL_FORMAT_ND, copy.storage, view));
    RunPhase1(library, copy_operator, copy.planned, {true}, {});
    workspace_bytes_ = std::max(workspace_bytes_, copy.planned.workspace_bytes);
  }
}

void LaneCall::PlanOperator(const AclLibrary& library, ExecutorCache& executors) {
  if (executors.is_on()) {
    key_ = ExecutorKey(*call_);
    kept_ = executors.Find(key_);
    is_reused_ = kept_ != nullptr;
  }
  if (!is_reused_) {
    planned_ = MakeExecutor(library, *operator_);
    // Directly after phase 1: the library only knows the executor that this thread planned last.
    if (IsRepeatable(planned_)) kept_ = executors.Keep(call_->form->symbol, key_, planned_);
    KeptExecutor& planned = kept_ != nullptr ? *kept_ : planned_;
    planned.is_short = library.IsShort(planned.executor.get());
  }
  const KeptExecutor& planned = kept_ != nullptr ? *kept_ : planned_;
  is_short_ = planned.is_short && input_copies_.empty();
  workspace_bytes_ = std::max(workspace_bytes_, planned.workspace_bytes);
}

KeptExecutor LaneCall::MakeExecutor(const AclLibrary& library, const Operator& op) const {
  const AclFunctions& acl = library.functions();
  const CallForm& form = *call_->form;
  const auto make_tensor = [&](const std::vector<int64_t>& shape, aclDataType dtype, void* address,
                               const View* view = nullptr) {
    const aclFormat format = form.is_spatial ? SpatialFormat(shape.size()) : ACL_FORMAT_ND;
    return MakeTensor(acl, shape, dtype, format, address, view);
  };
  KeptExecutor made;
  std::vector<bool> is_taken(outputs_.size());  // by an input that is written in place
  made.inputs.reserve(inputs_.size());
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const bool is_absent = std::holds_alternative<Absent>(call_->inputs[i]);
    const InputForm& input = form.inputs[i];
    const std::optional<View>& view = input.in_place ? input.in_place->view : input.view;
    const std::vector<int64_t>& shape = input.in_place ? input.in_place->shape : input.shape;
    const bool is_strided = view && (input.in_place || input.is_strided());
    made.inputs.push_back(is_absent ? TensorHandle{}
                                    : make_tensor(shape, input.dtype, inputs_[i], is_strided ? &*view : nullptr));
    if (input.in_place) is_taken.at(input.in_place->output) = true;
  }
  std::vector<bool> wanted;
  made.outputs.reserve(outputs_.size());
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    if (is_taken[i]) continue;
    const OutputForm& output = form.outputs[i];
    const bool is_null = output.use == OutputUse::kNull;
    made.outputs.push_back(is_null ? TensorHandle{} : make_tensor(output.shape, output.dtype, outputs_[i]));
    wanted.push_back(output.is_returned());
  }
  static std::mutex alone;
  std::unique_lock<std::mutex> lock(alone, std::defer_lock);
  if (form.is_planned_alone) lock.lock();
  RunPhase1(library, op, made, wanted, form.attributes);
  return made;
}

bool LaneCall::IsRepeatable(const KeptExecutor& planned) const {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const bool is_in_list = planned.inputs[i] == nullptr && !std::holds_alternative<Absent>(call_->inputs[i]);
    if (is_in_list || call_->form->inputs[i].in_place) return false;
  }
  return true;
}

std::size_t LaneCall::NeedCopies(LaneCopies& copies) const {
  for (const std::size_t number : copies_in_) copies.Need(number);
  std::size_t pinned_bytes = 0;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const OutputBytes& output = call_->outputs[i];
    if (IsCopied(output, outputs_[i])) pinned_bytes += LaneCopies::PinnedBytes(output.size_bytes);
  }
  return pinned_bytes;
}

void LaneCall::Launch(const AclLibrary& library, Stream& stream, void* workspace) {
  if (HasJoinedInputs(*call_)) return;
  if (call_->is_empty) return WriteZeros(library, stream);
  FillOutputs(library, stream);
  if (!input_copies_.empty()) {
    const Operator& copy_operator = library.FindOperator(kCopyOperator);
    for (InputCopy& copy : input_copies_) {
      KeptExecutor& planned = copy.planned;
      library.Check(copy_operator.launch(workspace, planned.workspace_bytes, planned.executor.release(), stream.get()),
                    kCopyOperator);
    }
  }
  if (kept_ == nullptr) {
    library.Check(operator_->launch(workspace, planned_.workspace_bytes, planned_.executor.release(), stream.get()),
                  "phase 2");
    return;
  }
  try {
    if (is_reused_) SetAddresses(library);
    library.Check(operator_->launch(workspace, kept_->workspace_bytes, kept_->executor.get(), stream.get()), "phase 2");
  } catch (...) {
    // Lives until the stream is idle: a part of it may have been launched.
    planned_ = stream.executors().Take(key_);
    kept_ = nullptr;
    throw;
  }
}

void LaneCall::SetAddresses(const AclLibrary& library) const {
  const auto& [values, inputs, outputs, executor, workspace_bytes, is_short] = *kept_;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs[i] == nullptr) continue;
    library.Check(library->aclSetInputTensorAddr(executor.get(), i, inputs[i].get(), inputs_[i]),
                  "aclSetInputTensorAddr");
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs[i] == nullptr) continue;
    library.Check(library->aclSetOutputTensorAddr(executor.get(), i, outputs[i].get(), outputs_[i]),
                  "aclSetOutputTensorAddr");
  }
}

void LaneCall::FillOutputs(const AclLibrary& library, const Stream& stream) const {
  // A library that takes host addresses promises to write outputs whole.
  if (library.host_pointers()) return;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const std::size_t size_bytes = call_->outputs[i].size_bytes;
    if (call_->form->outputs[i].use != OutputUse::kReturned || size_bytes == 0) continue;
    library.Check(library->aclrtMemsetAsync(outputs_[i], size_bytes, kUnwritten, size_bytes, stream.get()),
                  "aclrtMemsetAsync");
  }
}

void LaneCall::WriteZeros(const AclLibrary& library, const Stream& stream) const {
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const OutputBytes& output = call_->outputs[i];
    if (outputs_[i] == nullptr || output.size_bytes == 0) continue;
    if (outputs_[i] == output.host) {
      std::memset(output.host, 0, output.size_bytes);
    } else {
      library.Check(library->aclrtMemsetAsync(outputs_[i], output.size_bytes, 0, output.size_bytes, stream.get()),
                    "aclrtMemsetAsync");
    }
  }
}

void LaneCall::ReturnOutputs(LaneCopies& copies) const {
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const OutputBytes& output = call_->outputs[i];
    if (IsCopied(output, outputs_[i]) || output.host_copy != nullptr) copies.AddOutput(output, outputs_[i]);
  }
}

}  // namespace aclgrad
