// aclnnReplicationPad2dBackward: its checks and its plan.
#include <algorithm>
#include <string>
#include <vector>

#include "aclnnop/aclnn_pad2d_backward.h"
#include "computation.h"
#include "plan/checks.h"
#include "plan/executor.h"
#include "plan/int_arrays.h"

namespace acl_host {
namespace {

// Throws unless gradOutput's dim is what padding makes of self's.
PaddedAxis CheckAxis(const Argument& grad_output, const Argument& self, const Dims& padding, size_t from_end) {
  const size_t axis = self.tensor.view_dims.size() - from_end;
  const int64_t before = padding[2 * from_end - 2];
  const int64_t after = padding[2 * from_end - 1];
  const int64_t size = self.tensor.view_dims[axis];
  const int64_t padded = grad_output.tensor.view_dims[axis];
  int64_t expected = 0;
  if (__builtin_add_overflow(size, before, &expected) || __builtin_add_overflow(expected, after, &expected) ||
      padded != expected) {
    FailInvalid("gradOutput: expected dim " + std::to_string(axis) + " to be " + std::to_string(size) + " padded by " +
                std::to_string(before) + " and " + std::to_string(after) + ", got shape " +
                DimsText(grad_output.tensor.view_dims));
  }
  // Taking away more than there is makes no difference, and could not be negated.
  return {size, std::max(before, -size), padded};
}

// A device sums BF16 in a kernel that has these limits and has no other kernel for it.
void CheckPaddingOfBFloat16(const Dims& padding) {
  const bool negative = std::any_of(padding.begin(), padding.end(), [](int64_t value) { return value < 0; });
  const bool small = std::all_of(padding.begin(), padding.end(), [](int64_t value) { return value <= 7; });
  if (!negative && (small || (padding[2] == 0 && padding[3] == 0))) return;
  FailInvalid("padding: expected values from 0 to 7 for BF16, or from 0 with none at top and bottom, got " +
              DimsText(padding));
}

// What CANN does about empty tensors; the caller has found one.
void CheckEmpty(const Argument& self) {
  const Dims& dims = self.tensor.view_dims;
  if (dims.size() == 4 && std::find(dims.begin() + 1, dims.end(), 0) == dims.end()) return;
  FailInvalid("self: expected no empty tensor but for a batch of 0, got shape " + DimsText(dims));
}

Plan MakePlan(const aclTensor* grad_output_pointer, const aclTensor* self_pointer, const aclIntArray* padding_pointer,
              const aclTensor* grad_input_pointer) {
  CheckProduct(CurrentProduct(), {"910A", "910B", "910_93", "310P", "950"});
  const Argument grad_output{"gradOutput", grad_output_pointer};
  const Argument self{"self", self_pointer};
  const IntArrayArgument padding_argument{"padding", padding_pointer};
  const Argument grad_input{"gradInput", grad_input_pointer};
  const Dims& padding = padding_argument.values;

  const std::vector<aclDataType> types = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_DOUBLE, ACL_COMPLEX64, ACL_COMPLEX128};
  for (const Argument& argument : {grad_output, self, grad_input}) CheckDataType(argument, types);
  CheckSameDataType(grad_output, self);
  CheckSameDataType(grad_input, self);

  for (const Argument& argument : {grad_output, self, grad_input}) CheckNotPrivateFormat(argument);
  CheckSameFormat(grad_output, self);
  CheckSameFormat(grad_input, self);

  CheckSameShape(grad_input, self);
  CheckRank(self, {3, 4});
  CheckSameRank(grad_output, self);

  CheckLength(padding_argument, {4});
  if (self.tensor.data_type == ACL_BF16) CheckPaddingOfBFloat16(padding);
  const PaddedAxis rows = CheckAxis(grad_output, self, padding, 2);
  const PaddedAxis columns = CheckAxis(grad_output, self, padding, 1);
  // A device does not compare the other dims and writes out of bounds; here they are errors.
  CheckSameLeadingDims(grad_output, self, self.tensor.rank() - 2);
  CheckNoNegativeDim(grad_output);
  CheckNoNegativeDim(self);

  Plan plan;
  if (grad_output.tensor.empty() || self.tensor.empty()) {
    CheckEmpty(self);
    return plan;
  }
  CheckAddressable(grad_output);
  CheckAddressable(grad_input);
  (void)ElementCount(grad_output.tensor.view_dims);
  const int64_t planes = ElementCount(self.tensor.view_dims) / rows.size / columns.size;
  plan.AddInput(grad_output.tensor);
  plan.AddOutput(grad_input.tensor);
  plan.PromiseTimeOfBytes();
  plan.SetCompute([run = AtVectorLevel<ReplicationPad2dBackward>(), pad = ReplicationPad{planes, rows, columns},
                   type = self.tensor.data_type](const Launch& launch) { run(pad, type, launch); });
  return plan;
}

}  // namespace
}  // namespace acl_host

aclnnStatus aclnnReplicationPad2dBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                          const aclIntArray* padding, aclTensor* gradInput,
                                                          uint64_t* workspaceSize, aclOpExecutor** executor) {
  return acl_host::PlanOperator(__func__, workspaceSize, executor,
                                [&] { return acl_host::MakePlan(gradOutput, self, padding, gradInput); });
}

aclnnStatus aclnnReplicationPad2dBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                          const aclrtStream stream) {
  return acl_host::RunOperator(__func__, workspace, workspaceSize, executor, stream);
}
