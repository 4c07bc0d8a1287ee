#include "executor.h"

#include <memory>
#include <string>

#include "data_type.h"
#include "runtime.h"
#include "strided_copy.h"

namespace acl_host {
namespace {

constexpr uint64_t kWorkspaceAlignment = 64;

}  // namespace

void Plan::CheckAddresses() const {
  if (does_nothing()) return;
  for (const auto* operands : {&inputs_, &outputs_}) {
    for (const Operand& operand : *operands) {
      if (operand.tensor.address == nullptr && !operand.tensor.empty()) {
        throw OperatorError(ACLNN_ERR_PARAM_NULLPTR, "a tensor of shape " + DimsText(operand.tensor.view_dims) +
                                                         " has no address; it was created with null data");
      }
    }
  }
}

void Plan::Run(ThreadPool& pool, std::byte* workspace) const {
  Launch launch{pool, {}, {}, {}};
  for (const Operand& input : inputs_) {
    std::byte* const address = Address(input, workspace);
    if (input.staged) CopyFromView(pool, input.tensor, address);
    launch.inputs.push_back(address);
  }
  for (const Operand& output : outputs_) launch.outputs.push_back(Address(output, workspace));
  for (const uint64_t offset : scratch_offsets_) launch.scratch.push_back(workspace + offset);
  compute_(launch);
  for (const Operand& output : outputs_) {
    if (output.staged) CopyToView(pool, Address(output, workspace), output.tensor);
  }
}

Plan::Operand Plan::MakeOperand(const aclTensor& tensor) {
  if (tensor.contiguous()) return {tensor, false, 0};
  const uint64_t element_bytes = aclDataTypeSize(tensor.data_type);
  uint64_t size_bytes = 0;
  if (__builtin_mul_overflow(static_cast<uint64_t>(ElementCount(tensor.view_dims)), element_bytes, &size_bytes)) {
    throw OperatorError(ACLNN_ERR_PARAM_INVALID, "there is no tensor of shape " + DimsText(tensor.view_dims));
  }
  return {tensor, true, Reserve(size_bytes)};
}

uint64_t Plan::Reserve(uint64_t size_bytes) {
  const uint64_t offset = workspace_bytes_;
  uint64_t end = 0;
  if (__builtin_add_overflow(size_bytes, kWorkspaceAlignment - 1, &size_bytes) ||
      __builtin_add_overflow(offset, size_bytes / kWorkspaceAlignment * kWorkspaceAlignment, &end)) {
    throw OperatorError(ACLNN_ERR_PARAM_INVALID, "the workspace would exceed 64 bits");
  }
  workspace_bytes_ = end;
  return offset;
}

std::byte* Plan::Address(const Operand& operand, std::byte* workspace) {
  if (operand.staged) return workspace + operand.workspace_offset;
  const auto element_bytes = static_cast<int64_t>(aclDataTypeSize(operand.tensor.data_type));
  return static_cast<std::byte*>(operand.tensor.address) + operand.tensor.offset * element_bytes;
}

void CheckPhase1Pointers(const uint64_t* workspace_size, aclOpExecutor* const* executor) {
  if (workspace_size == nullptr) throw OperatorError(ACLNN_ERR_PARAM_NULLPTR, "workspaceSize must not be null");
  if (executor == nullptr) throw OperatorError(ACLNN_ERR_PARAM_NULLPTR, "executor must not be null");
}

void PublishPlan(Plan plan, uint64_t* workspace_size, aclOpExecutor** executor) {
  auto owned = std::make_unique<aclOpExecutor>(aclOpExecutor{std::move(plan)});
  *workspace_size = owned->plan.workspace_bytes();
  *executor = owned.release();
}

aclnnStatus RunOperator(const char* function, void* workspace, uint64_t workspace_size, aclOpExecutor* executor,
                        aclrtStream stream) noexcept {
  // Before any check: a refused executor is consumed as well.
  const std::unique_ptr<aclOpExecutor> owned(executor);
  return GuardOperator(function, [&] {
    if (!owned) throw OperatorError(ACLNN_ERR_PARAM_NULLPTR, "executor must not be null");
    if (workspace_size > 0 && workspace == nullptr) {
      throw OperatorError(ACLNN_ERR_PARAM_NULLPTR,
                          "workspace must not be null with a workspaceSize of " + std::to_string(workspace_size));
    }
    const uint64_t needed = owned->plan.workspace_bytes();
    if (workspace_size < needed) {
      throw OperatorError(ACLNN_ERR_PARAM_INVALID, "workspaceSize is " + std::to_string(workspace_size) +
                                                       ", but this executor needs " + std::to_string(needed) +
                                                       " bytes");
    }
    owned->plan.CheckAddresses();
    const auto runtime = Runtime::Current();
    const auto target = runtime->FindStream(stream);
    if (owned->plan.does_nothing()) return;
    const auto plan = std::make_shared<const Plan>(std::move(owned->plan));
    target->Enqueue(
        [plan, workspace, &pool = target->device().pool] { plan->Run(pool, static_cast<std::byte*>(workspace)); });
  });
}

}  // namespace acl_host

aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor) {
  const std::unique_ptr<aclOpExecutor> owned(executor);
  return OK;
}
