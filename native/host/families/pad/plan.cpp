// Padding and its gradients: their checks, in CANN's order and with CANN's codes, and their plans.
#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "families/pad/computation.h"
#include "families/pad/forward.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

// The operators have the same arguments.
using PadArguments = ReflectionPad1dBackwardArguments;

// The differences between the operators.
struct PadOperator {
  PadRule rule;
  size_t axes;
  // A tensor without a batch may also be empty in its first dim.
  bool takes_no_channels;
};

// 3d operators pass BF16 on to a kernel that the products without BF16 do not have.
std::vector<aclDataType> TypesOf(const PadOperator& op) {
  std::vector<aclDataType> types = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_DOUBLE, ACL_COMPLEX64, ACL_COMPLEX128};
  if (op.axes == 3 && !HasBf16(CurrentProduct())) types.erase(types.begin() + 2);
  return types;
}

void CheckTensors(const PadOperator& op, const Argument& grad_output, const Argument& self,
                  const Argument& grad_input) {
  for (const Argument& argument : {grad_output, self, grad_input}) CheckDataType(argument, TypesOf(op));
  CheckSameDataType(grad_output, self);
  CheckSameDataType(grad_input, self);

  for (const Argument& argument : {grad_output, self, grad_input}) CheckNotPrivateFormat(argument);
  CheckSameFormat(grad_output, self);
  CheckSameFormat(grad_input, self);

  const auto rank = static_cast<int64_t>(op.axes);
  CheckSameShape(grad_input, self);
  CheckRank(self, {rank + 1, rank + 2});
  CheckSameRank(grad_output, self);
}

// A reflection must not reach the other border.
void CheckReflection(const PadOperator& op, const Argument& self, const Dims& padding) {
  const Dims& dims = self.tensor.view_dims;
  for (size_t i = 0; i < padding.size(); ++i) {
    if (padding[i] < dims[dims.size() - 1 - i / 2]) continue;
    FailInvalid("padding: expected less than the last " + std::to_string(op.axes) + " dims of self, of shape " +
                DimsText(dims) + ", got " + DimsText(padding));
  }
}

// In two dimensions a device has one kernel that sums BF16, with these limits.
void CheckPaddingOfBFloat16(const Dims& padding) {
  const bool negative = std::any_of(padding.begin(), padding.end(), [](int64_t value) { return value < 0; });
  const bool small = std::all_of(padding.begin(), padding.end(), [](int64_t value) { return value <= 7; });
  if (!negative && (small || (padding[2] == 0 && padding[3] == 0))) return;
  FailInvalid("padding: expected values from 0 to 7 for BF16, or from 0 with none at top and bottom, got " +
              DimsText(padding));
}

// Throws unless the dim of gradOutput, or of out, is self's with the padding.
PaddedAxis CheckAxis(const Argument& padded, const Argument& self, const Dims& padding, size_t from_end) {
  const size_t axis = self.tensor.view_dims.size() - from_end;
  const int64_t before = padding[2 * from_end - 2];
  const int64_t after = padding[2 * from_end - 1];
  const int64_t size = self.tensor.view_dims[axis];
  const int64_t found = padded.tensor.view_dims[axis];
  int64_t expected = 0;
  if (__builtin_add_overflow(size, before, &expected) || __builtin_add_overflow(expected, after, &expected) ||
      found != expected) {
    FailShape(padded, "dim " + std::to_string(axis) + " to be " + std::to_string(size) + " padded by " +
                          std::to_string(before) + " and " + std::to_string(after));
  }
  // Cropping more than the size has no further effect, and -INT64_MIN would overflow.
  return {size, std::max(before, -size), found};
}

// CANN's rules for empty tensors; the caller has found one. They look at self alone, whichever is empty.
void CheckEmpty(const PadOperator& op, const Argument& padded, const Argument& self) {
  const Dims& dims = self.tensor.view_dims;
  const bool may_be_empty = dims.size() == op.axes + 2 || op.takes_no_channels;
  if (may_be_empty && std::find(dims.begin() + 1, dims.end(), 0) == dims.end()) return;
  FailShape(self.tensor.empty() ? self : padded, "no empty tensor but for a batch of 0");
}

Plan MakePadPlan(const PadOperator& op, const PadArguments& arguments) {
  CheckProduct(kAllProducts);
  const Argument grad_output{"gradOutput", arguments.grad_output};
  const Argument self{"self", arguments.self};
  const IntArrayArgument padding_argument{"padding", arguments.padding};
  const Argument grad_input{"gradInput", arguments.grad_input};
  CheckTensors(op, grad_output, self, grad_input);

  const Dims& padding = padding_argument.values;
  CheckLength(padding_argument, {2 * op.axes});
  if (op.rule == PadRule::kReflection) CheckReflection(op, self, padding);
  if (op.axes == 2 && self.tensor.data_type == ACL_BF16) CheckPaddingOfBFloat16(padding);
  std::array<PaddedAxis, 3> axes = {kNoAxis, kNoAxis, kNoAxis};
  for (size_t from_end = op.axes; from_end > 0; --from_end) {
    axes[axes.size() - from_end] = CheckAxis(grad_output, self, padding, from_end);
  }
  // A device does not compare the other dims and writes out of bounds; here a difference is an error.
  CheckSameLeadingDims(grad_output, self, self.tensor.rank() - static_cast<int64_t>(op.axes));
  CheckNoNegativeDim(grad_output);
  CheckNoNegativeDim(self);

  if (grad_output.tensor.empty() || self.tensor.empty()) {
    CheckEmpty(op, grad_output, self);
    return {};
  }
  Plan plan = PlanOf({grad_output}, {grad_input});
  const int64_t planes = ElementCount(self.tensor.view_dims) / axes[0].size / axes[1].size / axes[2].size;
  plan.PromiseTimeOfBytes();
  plan.SetKernel<PadBackward>(Pad{op.rule, planes, axes[0], axes[1], axes[2]}, self.tensor.data_type);
  return plan;
}

// Of planes, which alone are padded forward. Devices only move elements there, so they take integers, too.
std::vector<aclDataType> MovedTypes(PadRule rule) {
  std::vector<aclDataType> types = FloatTypes({ACL_DOUBLE, ACL_INT8, ACL_INT16, ACL_INT32, ACL_INT64, ACL_UINT8});
  const Product product = CurrentProduct();
  const bool reflects = rule == PadRule::kReflection;
  if (reflects || product == Product::k950) types.push_back(ACL_BOOL);
  if (!reflects || HasBf16(product)) types.insert(types.end(), {ACL_COMPLEX64, ACL_COMPLEX128});
  return types;
}

Plan MakeForwardPlan(PadRule rule, const ReplicationPad2dArguments& arguments) {
  CheckProduct(kAllProducts);
  const PadOperator op{rule, 2, false};
  const Argument self{"self", arguments.self};
  const IntArrayArgument padding_argument{"padding", arguments.padding};
  const Argument out{"out", arguments.out};
  if (rule == PadRule::kReplication) CheckSameFormat(out, self);
  for (const Argument& argument : {self, out}) CheckDataType(argument, MovedTypes(rule));
  CheckSameDataType(out, self);
  if (rule == PadRule::kReflection) CheckSameFormat(out, self);
  for (const Argument& argument : {self, out}) CheckNotPrivateFormat(argument);
  CheckRank(self, {3, 4});
  CheckSameRank(out, self);
  const Dims& padding = padding_argument.values;
  CheckLength(padding_argument, {4});
  if (rule == PadRule::kReflection) CheckReflection(op, self, padding);
  PaddedAxis rows = CheckAxis(out, self, padding, 2);
  PaddedAxis columns = CheckAxis(out, self, padding, 1);
  if (rule == PadRule::kReflection) {
    // Cropping beyond the size begins within the reflection, and not far, because that is less than the size.
    rows.before = padding[2];
    columns.before = padding[0];
  }
  // Devices compare the other dims for reflection when it is planned: not those of empty tensors.
  if (rule == PadRule::kReplication) CheckSameLeadingDims(out, self, self.tensor.rank() - 2);
  for (const Argument& argument : {self, out}) CheckNoNegativeDim(argument);
  if (self.tensor.empty() || out.tensor.empty()) {
    CheckEmpty(op, out, self);
    return {};
  }
  CheckSameLeadingDims(out, self, self.tensor.rank() - 2);
  Plan plan = PlanOf({self}, {out});
  const int64_t planes = ElementCount(self.tensor.view_dims) / rows.size / columns.size;
  plan.PromiseTimeOfBytes();
  plan.SetCompute([pad = Pad{rule, planes, kNoAxis, rows, columns},
                   type = self.tensor.data_type](const KernelArguments& launch) { PadPlanes(pad, type, launch); });
  return plan;
}

constexpr auto kReflection = PadRule::kReflection;
constexpr auto kReplication = PadRule::kReplication;

}  // namespace

Plan PlanReflectionPad1dBackward(const PadArguments& given) { return MakePadPlan({kReflection, 1, true}, given); }
Plan PlanReflectionPad2dBackward(const PadArguments& given) { return MakePadPlan({kReflection, 2, true}, given); }
Plan PlanReflectionPad3dBackward(const PadArguments& given) { return MakePadPlan({kReflection, 3, false}, given); }
Plan PlanReflectionPad2d(const ReplicationPad2dArguments& given) { return MakeForwardPlan(kReflection, given); }
Plan PlanReplicationPad2d(const ReplicationPad2dArguments& given) { return MakeForwardPlan(kReplication, given); }
Plan PlanReplicationPad1dBackward(const PadArguments& given) { return MakePadPlan({kReplication, 1, false}, given); }
Plan PlanReplicationPad2dBackward(const PadArguments& given) { return MakePadPlan({kReplication, 2, false}, given); }
Plan PlanReplicationPad3dBackward(const PadArguments& given) { return MakePadPlan({kReplication, 3, false}, given); }

}  // namespace acl_host
