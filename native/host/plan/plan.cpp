#include "plan/plan.h"

#include <cstring>

#include "errors/exceptions.h"
#include "tensors/strided_copy.h"

namespace acl_host {
namespace {

constexpr uint64_t kWorkspaceAlignment = 64;

}  // namespace

Plan::Addresses Plan::ReadAddresses() const {
  Addresses addresses;
  addresses.reserve(inputs_.size() + outputs_.size());
  ForOperands([&](const aclTensor& tensor, bool) {
    void* const address = tensor.storage->address;
    if (address == nullptr && !tensor.empty()) {
      throw OperatorError(ACLNN_ERR_PARAM_NULLPTR, "a tensor of shape " + DimsText(tensor.view_dims) +
                                                       " has no address; it was created with null data");
    }
    addresses.push_back(address);
  });
  return addresses;
}

void Plan::Run(ThreadPool& pool, const Addresses& addresses, std::byte* workspace) const {
  KernelArguments launch{pool, {}, {}, {}};
  auto address = addresses.begin();
  for (const Operand& input : inputs_) {
    std::byte* const data = Locate(input, *address, workspace);
    if (input.staged) CopyFromView(pool, input.tensor, *address, data);
    launch.inputs.push_back(data);
    ++address;
  }
  const auto first_output = address;
  for (const Operand& output : outputs_) launch.outputs.push_back(Locate(output, *address++, workspace));
  for (const uint64_t offset : scratch_offsets_) launch.scratch.push_back(workspace + offset);
  if (idle_bytes_ != 0) std::memset(workspace + idle_offset_, 0, idle_bytes_);
  compute_(launch);
  address = first_output;
  for (const Operand& output : outputs_) {
    if (output.staged) CopyToView(pool, Locate(output, *address, workspace), output.tensor, *address);
    ++address;
  }
}

void Plan::SetZeros() {
  std::vector<size_t> sizes;
  for (const Operand& output : outputs_) {
    const aclTensor& tensor = output.tensor;
    sizes.push_back(static_cast<size_t>(ElementCount(tensor.view_dims)) * aclDataTypeSize(tensor.data_type));
  }
  compute_ = [sizes](const KernelArguments& arguments) {
    for (size_t i = 0; i < sizes.size(); ++i) std::memset(arguments.outputs[i], 0, sizes[i]);
  };
}

void Plan::AddIdleWorkspace(int32_t percent) {
  idle_bytes_ = operand_bytes_ / 100 * static_cast<uint64_t>(percent);
  if (idle_bytes_ != 0) idle_offset_ = Reserve(idle_bytes_);
}

Plan::Operand Plan::MakeOperand(const aclTensor& tensor, bool staged) {
  const uint64_t element_bytes = aclDataTypeSize(tensor.data_type);
  uint64_t size_bytes = 0;
  const bool exists =
      !__builtin_mul_overflow(static_cast<uint64_t>(ElementCount(tensor.view_dims)), element_bytes, &size_bytes) &&
      !__builtin_add_overflow(operand_bytes_, size_bytes, &operand_bytes_);
  if (!exists) operand_bytes_ = UINT64_MAX;
  if (!staged) return {tensor, false, 0};
  if (!exists) {
    throw OperatorError(ACLNN_ERR_PARAM_INVALID, "there is no tensor of shape " + DimsText(tensor.view_dims));
  }
  return {tensor, true, Reserve(size_bytes)};
}

uint64_t Plan::Reserve(uint64_t size_bytes) {
  const uint64_t offset = workspace_bytes_;
  uint64_t end = 0;
  if (__builtin_add_overflow(size_bytes, kWorkspaceAlignment - 1, &size_bytes) ||
      __builtin_add_overflow(offset, size_bytes / kWorkspaceAlignment * kWorkspaceAlignment, &end) ||
      end > UINT64_MAX - kRedZoneBytes) {
    throw OperatorError(ACLNN_ERR_PARAM_INVALID, "the workspace would exceed 64 bits");
  }
  workspace_bytes_ = end;
  return offset;
}

std::byte* Plan::Locate(const Operand& operand, void* storage, std::byte* workspace) {
  if (operand.staged) return workspace + operand.workspace_offset;
  const auto element_bytes = static_cast<int64_t>(aclDataTypeSize(operand.tensor.data_type));
  return static_cast<std::byte*>(storage) + operand.tensor.offset * element_bytes;
}

}  // namespace acl_host
