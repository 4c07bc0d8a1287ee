// aclnnSwiGluGrad, which CANN generates: its tiling does not compare yGrad with x, so that all is checked here.
#include <string>

#include "computation.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

// Tiling fails with a code of its own.
[[noreturn]] void FailTiling(const std::string& message) { throw OperatorError(ACLNN_ERR_INNER_TILING_ERROR, message); }

// The axis that is halved.
size_t CheckDim(const Argument& x, int64_t dim) {
  const int64_t rank = x.tensor.rank();
  if (dim < -rank || dim >= rank) {
    FailTiling("dim: expected from " + std::to_string(-rank) + " to " + std::to_string(rank - 1) + ", got " +
               std::to_string(dim));
  }
  const auto axis = static_cast<size_t>(dim < 0 ? dim + rank : dim);
  if (x.tensor.view_dims[axis] % 2 != 0) {
    FailTiling("x: expected dim " + std::to_string(axis) + " to be even, got shape " + DimsText(x.tensor.view_dims));
  }
  return axis;
}

}  // namespace

Plan PlanSwiGluGrad(const SwiGluGradArguments& given) {
  const Product& product = CurrentProduct();
  CheckProduct(product, {"910B", "910_93", "310P", "950"});
  const Argument y_grad{"yGrad", given.y_grad};
  const Argument x{"x", given.x};
  const Argument out{"out", given.out};
  for (const Argument& each : {y_grad, x, out}) CheckDataType(each, FloatTypes(product));
  CheckSameDataType(x, y_grad);
  CheckSameDataType(out, y_grad);
  const size_t axis = CheckDim(x, given.dim);
  Dims halved = x.tensor.view_dims;
  halved[axis] /= 2;
  if (y_grad.tensor.view_dims != halved) {
    FailInvalid("yGrad: expected the shape of x with half of dim " + std::to_string(axis) + ", " + DimsText(halved) +
                ", got " + DimsText(y_grad.tensor.view_dims));
  }
  CheckSameShape(out, x);
  CheckNoNegativeDim(x);
  if (x.tensor.empty()) FailTiling("x: expected elements, got shape " + DimsText(x.tensor.view_dims));
  for (const Argument& each : {y_grad, x, out}) CheckAddressable(each);
  (void)ElementCount(x.tensor.view_dims);

  const auto place = static_cast<int64_t>(axis);
  const int64_t rows = ElementCount(Dims(halved.begin(), halved.begin() + place));
  const SwiGlu glu{rows, ElementCount(halved) / rows, x.tensor.data_type};
  Plan plan;
  plan.AddInput(y_grad.tensor);
  plan.AddInput(x.tensor);
  plan.AddOutput(out.tensor);
  plan.PromiseTimeOfBytes();
  plan.SetCompute([run = AtVectorLevel<SwiGluGradient>(), glu](const KernelArguments& launch) { run(glu, launch); });
  return plan;
}

}  // namespace acl_host
