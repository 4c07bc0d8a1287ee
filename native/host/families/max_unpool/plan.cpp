// The gradients of max unpooling: their checks, in CANN's order and with CANN's codes, and their plans. Every cell of
// the gradient is the element of gradOutput that its index names, within its plane, which is the last two or three
// axes.
#include <algorithm>
#include <string>
#include <vector>

#include "families/max_unpool/computation.h"
#include "operator_plans.h"
#include "plan/checks.h"
#include "tensors/data_type.h"

namespace acl_host {
namespace {

bool IsFloat(aclDataType type) { return type == ACL_FLOAT || type == ACL_FLOAT16; }

bool IsCastable(aclDataType from, aclDataType to) {
  return from == to || (to != ACL_BOOL && (IsFloat(to) || !IsFloat(from)));
}

void CheckTypesOf2d(const Argument& grad_output, const Argument& self, const Argument& indices, const Argument& out) {
  const std::vector<aclDataType> types = {ACL_FLOAT, ACL_FLOAT16, ACL_INT8,  ACL_UINT8,
                                          ACL_INT16, ACL_INT32,   ACL_INT64, ACL_BOOL};
  for (const Argument& argument : {grad_output, self, out}) CheckDataType(argument, types);
  const aclDataType from = grad_output.tensor.data_type;
  const aclDataType to = out.tensor.data_type;
  if (!IsCastable(from, to)) {
    FailInvalid("out: expected a data type that " + DataTypeName(from) + " can be cast to, got " + DataTypeName(to));
  }
  CheckSameDataType(grad_output, self);
  CheckDataType(indices, {ACL_INT64, ACL_INT32});
}

void CheckShapesOf2d(const Argument& grad_output, const Argument& self, const Argument& indices,
                     const IntArrayArgument& output_size, const Argument& out) {
  CheckRank(self, {3, 4});
  CheckSameRank(grad_output, self);
  const auto axis = self.tensor.view_dims.size() - 2;
  CheckSameLeadingDims(grad_output, self, static_cast<int64_t>(axis));
  CheckSameShape(indices, self);
  CheckSameShape(out, self);
  CheckLength(output_size, {2});
  for (size_t i = 0; i < 2; ++i) CheckDim(grad_output, axis + i, "that of outputSize", output_size.values[i]);
  CheckNoNegativeDim(grad_output);
  CheckNoNegativeDim(self);
  if (grad_output.tensor.empty() && !self.tensor.empty()) {
    FailShape(grad_output, "elements for those of self, of shape " + DimsText(self.tensor.view_dims));
  }
}

void CheckTensorsOf3d(const Argument& grad_output, const Argument& self, const Argument& indices, const Argument& out) {
  if (!out.tensor.contiguous()) FailInvalid("out: expected contiguous strides, got " + DimsText(out.tensor.strides));

  const std::vector<aclDataType> types = {ACL_FLOAT, ACL_FLOAT16, ACL_INT8,  ACL_UINT8,
                                          ACL_INT16, ACL_INT32,   ACL_INT64, ACL_DOUBLE};
  for (const Argument& argument : {grad_output, self, out}) CheckDataType(argument, types);
  CheckSameDataType(grad_output, self);
  CheckSameDataType(out, self);
  CheckDataType(indices, {ACL_INT64});

  CheckRank(self, {4, 5});
  CheckSameRank(indices, self);
  CheckSameRank(out, self);
  CheckSameShape(indices, self);
  CheckSameShape(out, self);
  CheckNoEmptyDim(self, 1);
}

void CheckSizesOf3d(const Argument& self, const Argument& grad_output, const IntArrayArgument& output_size,
                    const IntArrayArgument& stride, const IntArrayArgument& padding) {
  for (const IntArrayArgument& array : {output_size, stride, padding}) CheckLength(array, {3});
  CheckEachPositive(stride);
  CheckEachPositive(output_size);
  const Dims cells(self.tensor.view_dims.end() - 3, self.tensor.view_dims.end());
  if (ElementCount(output_size.values) < ElementCount(cells)) {
    FailInvalid("outputSize: expected room for the " + DimsText(cells) + " cells of self, got " +
                DimsText(output_size.values));
  }

  CheckSameRank(grad_output, self);
  CheckSameLeadingDims(grad_output, self, self.tensor.rank() - 3);
  const Dims& grad_dims = grad_output.tensor.view_dims;
  if (!std::equal(output_size.values.begin(), output_size.values.end(), grad_dims.end() - 3)) {
    FailShape(grad_output, "the last three dims to be outputSize, " + DimsText(output_size.values));
  }
}

Plan MakeUnpoolPlan(const char* operator_name, const Argument& grad_output, const Argument& indices,
                    const Argument& out, std::ptrdiff_t axes) {
  Plan plan = PlanOf({grad_output, indices}, {out});
  const Dims& dims = out.tensor.view_dims;
  const Dims& grad_dims = grad_output.tensor.view_dims;
  const MaxUnpool unpool{operator_name, indices.tensor.data_type, ElementCount(Dims(dims.begin(), dims.end() - axes)),
                         ElementCount(Dims(dims.end() - axes, dims.end())),
                         ElementCount(Dims(grad_dims.end() - axes, grad_dims.end()))};
  plan.PromiseTimeOfBytes();
  plan.SetKernel<MaxUnpoolBackward>(unpool, out.tensor.data_type);
  return plan;
}

}  // namespace

Plan PlanMaxUnpool2dBackward(const MaxUnpool2dBackwardArguments& arguments) {
  CheckProduct(kNot310P);
  const Argument grad_output{"gradOutput", arguments.grad_output};
  const Argument self{"self", arguments.self};
  const Argument indices{"indices", arguments.indices};
  const IntArrayArgument output_size{"outputSize", arguments.output_size};
  const Argument out{"out", arguments.out};
  // Formats are not checked, as on a device.
  CheckTypesOf2d(grad_output, self, indices, out);
  CheckShapesOf2d(grad_output, self, indices, output_size, out);
  if (self.tensor.empty()) return {};

  if (out.tensor.data_type != self.tensor.data_type) {
    // A device would cast, which is not served.
    throw OperatorError(
        ACLNN_ERR_INNER_FIND_KERNEL_ERROR,
        "out: no kernel casts " + DataTypeName(self.tensor.data_type) + " to " + DataTypeName(out.tensor.data_type));
  }
  return MakeUnpoolPlan("aclnnMaxUnpool2dBackward", grad_output, indices, out, 2);
}

Plan PlanMaxUnpool3dBackward(const MaxUnpool3dBackwardArguments& arguments) {
  CheckProduct(kNot310P);
  const Argument grad_output{"gradOutput", arguments.grad_output};
  const Argument self{"self", arguments.self};
  const Argument indices{"indices", arguments.indices};
  const IntArrayArgument output_size{"outputSize", arguments.output_size};
  const IntArrayArgument stride{"stride", arguments.stride};
  const IntArrayArgument padding{"padding", arguments.padding};
  const Argument out{"out", arguments.out};
  CheckTensorsOf3d(grad_output, self, indices, out);
  // Neither the formats nor the values of padding are checked, as on a device.
  CheckSizesOf3d(self, grad_output, output_size, stride, padding);
  CheckNoNegativeDim(self);
  for (const Argument& argument : {grad_output, indices, out}) CheckAddressable(argument);
  if (grad_output.tensor.empty()) return {};
  return MakeUnpoolPlan("aclnnMaxUnpool3dBackward", grad_output, indices, out, 3);
}

}  // namespace acl_host
