// aclnnSwiGluGrad, which CANN generates: its tiling does not compare yGrad with x, so that all is checked here.
#include <string>

#include "computation.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

constexpr Products kProducts = {Product::k910B, Product::k910_93, Product::k310P, Product::k950};

// The axis that is halved.
size_t CheckDim(const Argument& x, int64_t dim) {
  const int64_t rank = x.tensor.rank();
  if (dim < -rank || dim >= rank) {
    throw OperatorError(ACLNN_ERR_INNER_TILING_ERROR, "dim: expected from " + std::to_string(-rank) + " to " +
                                                          std::to_string(rank - 1) + ", got " + std::to_string(dim));
  }
  const auto axis = static_cast<size_t>(dim < 0 ? dim + rank : dim);
  if (x.tensor.view_dims[axis] % 2 != 0) {
    FailShape(x, "dim " + std::to_string(axis) + " to be even", ACLNN_ERR_INNER_TILING_ERROR);
  }
  return axis;
}

}  // namespace

Plan PlanSwiGluGrad(const SwiGluGradArguments& given) {
  CheckProduct(kProducts);
  const Argument y_grad{"yGrad", given.y_grad};
  const Argument x{"x", given.x};
  const Argument out{"out", given.out};
  for (const Argument& each : {y_grad, x, out}) CheckDataType(each, FloatTypes());
  CheckSameDataType(x, y_grad);
  CheckSameDataType(out, y_grad);
  const size_t axis = CheckDim(x, given.dim);
  Dims halved = x.tensor.view_dims;
  halved[axis] /= 2;
  CheckShape(y_grad, ("the shape of x with half of dim " + std::to_string(axis)).c_str(), halved);
  CheckSameShape(out, x);
  CheckNoNegativeDim(x);
  if (x.tensor.empty()) FailShape(x, "elements", ACLNN_ERR_INNER_TILING_ERROR);
  Plan plan = PlanOf({y_grad, x}, {out});

  const auto place = static_cast<int64_t>(axis);
  const int64_t rows = ElementCount(Dims(halved.begin(), halved.begin() + place));
  const SwiGlu glu{rows, ElementCount(halved) / rows, x.tensor.data_type};
  plan.PromiseTimeOfBytes();
  plan.SetKernel<SwiGluGradient>(glu);
  return plan;
}

}  // namespace acl_host
