// aclnnMaxUnpool3dBackward: every cell of the gradient is the element of gradOutput that its index names, within its
// plane, which is the last three axes as one. Elements are only moved.
#include <algorithm>

#include "families/max_unpool/computation.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

constexpr Products kProducts = {Product::k910A, Product::k910B, Product::k910_93, Product::k950};

void CheckTensors(const Argument& grad_output, const Argument& self, const Argument& indices, const Argument& out) {
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

void CheckSizes(const Argument& self, const Argument& grad_output, const IntArrayArgument& output_size,
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

}  // namespace

Plan PlanMaxUnpool3dBackward(const MaxUnpool3dBackwardArguments& arguments) {
  CheckProduct(kProducts);
  const Argument grad_output{"gradOutput", arguments.grad_output};
  const Argument self{"self", arguments.self};
  const Argument indices{"indices", arguments.indices};
  const IntArrayArgument output_size{"outputSize", arguments.output_size};
  const IntArrayArgument stride{"stride", arguments.stride};
  const IntArrayArgument padding{"padding", arguments.padding};
  const Argument out{"out", arguments.out};
  CheckTensors(grad_output, self, indices, out);
  // Neither the formats nor the values of padding are checked, as on a device.
  CheckSizes(self, grad_output, output_size, stride, padding);
  CheckNoNegativeDim(self);
  for (const Argument& argument : {grad_output, indices, out}) CheckAddressable(argument);
  if (grad_output.tensor.empty()) return {};

  const Dims& dims = self.tensor.view_dims;
  const Dims planes(dims.begin(), dims.end() - 3);
  const MaxUnpool unpool{"aclnnMaxUnpool3dBackward", ACL_INT64, ElementCount(planes),
                         ElementCount(Dims(dims.end() - 3, dims.end())), ElementCount(output_size.values)};
  Plan plan = PlanOf({grad_output, indices}, {out});
  plan.PromiseTimeOfBytes();
  plan.SetKernel<MaxUnpoolBackward>(unpool, self.tensor.data_type);
  return plan;
}

}  // namespace acl_host
