// aclnnMaxUnpool2dBackward: every cell of the gradient is the element of gradOutput that its index names, within its
// plane. Elements are only moved.
#include <string>
#include <vector>

#include "families/max_unpool/computation.h"
#include "operator_plans.h"
#include "plan/checks.h"
#include "tensors/data_type.h"

namespace acl_host {
namespace {

constexpr Products kProducts = {Product::k910A, Product::k910B, Product::k910_93, Product::k950};

bool IsFloat(aclDataType type) { return type == ACL_FLOAT || type == ACL_FLOAT16; }

bool IsCastable(aclDataType from, aclDataType to) {
  return from == to || (to != ACL_BOOL && (IsFloat(to) || !IsFloat(from)));
}

void CheckDataTypes(const Argument& grad_output, const Argument& self, const Argument& indices, const Argument& out) {
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

void CheckShapes(const Argument& grad_output, const Argument& self, const Argument& indices,
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

}  // namespace

Plan PlanMaxUnpool2dBackward(const MaxUnpool2dBackwardArguments& arguments) {
  CheckProduct(kProducts);
  const Argument grad_output{"gradOutput", arguments.grad_output};
  const Argument self{"self", arguments.self};
  const Argument indices{"indices", arguments.indices};
  const IntArrayArgument output_size{"outputSize", arguments.output_size};
  const Argument out{"out", arguments.out};
  // Formats are not checked, as on a device.
  CheckDataTypes(grad_output, self, indices, out);
  CheckShapes(grad_output, self, indices, output_size, out);
  if (self.tensor.empty()) return {};

  if (out.tensor.data_type != self.tensor.data_type) {
    // A device would cast, which is not served.
    throw OperatorError(
        ACLNN_ERR_INNER_FIND_KERNEL_ERROR,
        "out: no kernel casts " + DataTypeName(self.tensor.data_type) + " to " + DataTypeName(out.tensor.data_type));
  }
  Plan plan = PlanOf({grad_output, indices}, {out});
  const Dims& dims = self.tensor.view_dims;
  const MaxUnpool unpool{"aclnnMaxUnpool2dBackward", indices.tensor.data_type,
                         ElementCount(Dims(dims.begin(), dims.end() - 2)),
                         ElementCount(Dims(dims.end() - 2, dims.end())), ElementCount(output_size.values)};
  plan.PromiseTimeOfBytes();
  plan.SetKernel<MaxUnpoolBackward>(unpool, self.tensor.data_type);
  return plan;
}

}  // namespace acl_host
