// aclnnAdaptiveAvgPool3dBackward: its checks and its plan.
#include <algorithm>
#include <string>
#include <vector>

#include "families/average_pool/computation.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

constexpr Products kProducts = {Product::k910A, Product::k910B, Product::k910_93, Product::k310P, Product::k950};

void CheckShapes(Product product, const Argument& grad_output, const Argument& self, const Argument& out) {
  CheckRank(self, {4, 5});
  CheckSameRank(grad_output, self);
  CheckSameRank(out, self);
  const Dims& dims = self.tensor.view_dims;
  // The 950 checks neither the first dim of self nor that of out.
  CheckNoEmptyDim(self, product == Product::k950 ? 1 : 0);
  CheckSameShape(out, self);
  CheckSameLeadingDims(grad_output, self, self.tensor.rank() - 3);
  CheckNoEmptyDim(grad_output, dims.size() - 3);
  CheckNoNegativeDim(self);
}

bool HasOneWindow(const Argument& grad_output) {
  const Dims& pooled = grad_output.tensor.view_dims;
  return std::all_of(pooled.end() - 3, pooled.end(), [](int64_t dim) { return dim == 1; });
}

void CheckDataTypes(Product product, const Argument& grad_output, const Argument& self, const Argument& out) {
  std::vector<aclDataType> types = FloatTypes();
  if (!HasBf16(product) || HasOneWindow(grad_output)) types.push_back(ACL_DOUBLE);
  CheckDataType(grad_output, types);
  CheckSameDataType(self, grad_output);
  CheckSameDataType(out, grad_output);
}

}  // namespace

Plan PlanAdaptiveAvgPool3dBackward(const AdaptiveAvgPool3dBackwardArguments& arguments) {
  const Product product = CurrentProduct();
  CheckProduct(kProducts);
  const Argument grad_output{"gradOutput", arguments.grad_output};
  const Argument self{"self", arguments.self};
  const Argument out{"out", arguments.out};
  CheckShapes(product, grad_output, self, out);
  CheckDataTypes(product, grad_output, self, out);
  CheckSameFormat(grad_output, self);
  CheckSameFormat(out, self);
  CheckNotPrivateFormat(self);
  if (!HasOneWindow(grad_output)) {
    const char* const expected = "one window for each plane";
    if (product == Product::k910A) FailShape(grad_output, expected);
    if (product == Product::k310P) FailShape(grad_output, expected, ACLNN_ERR_INNER_FIND_KERNEL_ERROR);
  }
  if (self.tensor.empty()) return {};

  Plan plan = PlanOf({grad_output}, {out});
  const Dims& in = self.tensor.view_dims;
  const Dims& pooled = grad_output.tensor.view_dims;
  const size_t axis = in.size() - 3;
  const AveragePool pool{ElementCount(Dims(in.begin(), in.end() - 3)),
                         {in[axis], pooled[axis]},
                         {in[axis + 1], pooled[axis + 1]},
                         {in[axis + 2], pooled[axis + 2]}};
  plan.PromiseTimeOfBytes();
  plan.SetKernel<AveragePoolBackward>(pool, self.tensor.data_type);
  return plan;
}

}  // namespace acl_host
