// aclnnAdaptiveAvgPool3dBackward: its checks and its plan.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "families/average_pool/computation.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

bool Is(const Product& product, const char* name) { return std::strcmp(product.name, name) == 0; }

void CheckShapes(const Product& product, const Argument& grad_output, const Argument& self, const Argument& out) {
  CheckRank(self, {4, 5});
  CheckSameRank(grad_output, self);
  CheckSameRank(out, self);
  const Dims& dims = self.tensor.view_dims;
  // The 950 checks neither the first dim of self nor that of out.
  const auto first = dims.begin() + (Is(product, "950") ? 1 : 0);
  if (std::any_of(first, dims.end(), [](int64_t dim) { return dim <= 0; })) {
    FailInvalid("self: expected no empty dim, got shape " + DimsText(dims));
  }
  CheckSameShape(out, self);
  CheckSameLeadingDims(grad_output, self, self.tensor.rank() - 3);
  const Dims& pooled = grad_output.tensor.view_dims;
  if (std::any_of(pooled.end() - 3, pooled.end(), [](int64_t dim) { return dim <= 0; })) {
    FailInvalid("gradOutput: expected no empty window, got shape " + DimsText(pooled));
  }
  CheckNoNegativeDim(self);
}

bool HasOneWindow(const Argument& grad_output) {
  const Dims& pooled = grad_output.tensor.view_dims;
  return std::all_of(pooled.end() - 3, pooled.end(), [](int64_t dim) { return dim == 1; });
}

void CheckDataTypes(const Product& product, const Argument& grad_output, const Argument& self, const Argument& out) {
  std::vector<aclDataType> types = FloatTypes(product);
  if (!product.bfloat16 || HasOneWindow(grad_output)) types.push_back(ACL_DOUBLE);
  CheckDataType(grad_output, types);
  CheckSameDataType(self, grad_output);
  CheckSameDataType(out, grad_output);
}

}  // namespace

Plan PlanAdaptiveAvgPool3dBackward(const AdaptiveAvgPool3dBackwardArguments& arguments) {
  const Product& product = CurrentProduct();
  CheckProduct(product, {"910A", "910B", "910_93", "310P", "950"});
  const Argument grad_output{"gradOutput", arguments.grad_output};
  const Argument self{"self", arguments.self};
  const Argument out{"out", arguments.out};
  CheckShapes(product, grad_output, self, out);
  CheckDataTypes(product, grad_output, self, out);
  CheckSameFormat(grad_output, self);
  CheckSameFormat(out, self);
  CheckNotPrivateFormat(self);
  if (!HasOneWindow(grad_output)) {
    const std::string got = "gradOutput: expected one window for each plane, got shape ";
    if (Is(product, "910A")) FailInvalid(got + DimsText(grad_output.tensor.view_dims));
    if (Is(product, "310P")) {
      throw OperatorError(ACLNN_ERR_INNER_FIND_KERNEL_ERROR, got + DimsText(grad_output.tensor.view_dims));
    }
  }
  Plan plan;
  if (self.tensor.empty()) return plan;

  CheckAddressable(grad_output);
  CheckAddressable(out);
  const Dims& in = self.tensor.view_dims;
  const Dims& pooled = grad_output.tensor.view_dims;
  (void)ElementCount(pooled);
  (void)ElementCount(in);
  const size_t axis = in.size() - 3;
  const AveragePool pool{ElementCount(Dims(in.begin(), in.end() - 3)),
                         {in[axis], pooled[axis]},
                         {in[axis + 1], pooled[axis + 1]},
                         {in[axis + 2], pooled[axis + 2]}};
  plan.AddInput(grad_output.tensor);
  plan.AddOutput(out.tensor);
  plan.PromiseTimeOfBytes();
  plan.SetCompute([run = AtVectorLevel<AveragePoolBackward>(), pool,
                   type = self.tensor.data_type](const KernelArguments& launch) { run(pool, type, launch); });
  return plan;
}

}  // namespace acl_host
