// aclnnSwiGlu, aclnnGluBackward and aclnnSwiGluGrad: their checks and plans. CANN generates those of SwiGLU: the tiling
// (561002) of the gradient does not compare yGrad with x, so that all is checked here.
#include <string>

#include "families/gated_units/computation.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

constexpr Products kSwiGluProducts = {Product::k910B, Product::k910_93, Product::k310P, Product::k950};

struct GatedTensors {
  Argument grad;
  Argument x;
  Argument out;
};

// Returns the axis that is halved; code is that of a wrong one.
size_t CheckDim(const Argument& x, int64_t dim, aclnnStatus code) {
  const int64_t rank = x.tensor.rank();
  if (dim < -rank || dim >= rank) {
    throw OperatorError(code, "dim: expected from " + std::to_string(-rank) + " to " + std::to_string(rank - 1) +
                                  ", got " + std::to_string(dim));
  }
  const auto axis = static_cast<size_t>(dim < 0 ? dim + rank : dim);
  if (x.tensor.view_dims[axis] % 2 != 0) FailShape(x, "dim " + std::to_string(axis) + " to be even", code);
  return axis;
}

Dims Halved(const Argument& x, size_t axis) {
  Dims halved = x.tensor.view_dims;
  halved[axis] /= 2;
  return halved;
}

// Rows of the tensor with this axis halved.
GatedUnit UnitOf(Gate gate, const Dims& halved, size_t axis, aclDataType type) {
  const int64_t rows = ElementCount(Dims(halved.begin(), halved.begin() + static_cast<int64_t>(axis)));
  return {gate, rows, ElementCount(halved) / rows, type};
}

// With the right types and ranks. An empty one earns the code, or success.
Plan MakeGatedPlan(Gate gate, const GatedTensors& tensors, int64_t dim, aclnnStatus code, bool takes_empty) {
  const auto& [grad, x, out] = tensors;
  const size_t axis = CheckDim(x, dim, code);
  const Dims halved = Halved(x, axis);
  CheckShape(grad, ("the shape of " + std::string(x.name) + " with half of dim " + std::to_string(axis)).c_str(),
             halved);
  CheckSameShape(out, x);
  CheckNoNegativeDim(x);
  if (x.tensor.empty()) {
    if (!takes_empty) FailShape(x, "elements", code);
    return {};
  }
  Plan plan = PlanOf({grad, x}, {out});
  plan.PromiseTimeOfBytes();
  plan.SetKernel<GatedUnitGradient>(UnitOf(gate, halved, axis, x.tensor.data_type));
  return plan;
}

}  // namespace

// Products but the 950 divide by the size of empty rows.
Plan PlanSwiGlu(const SwiGluArguments& given) {
  constexpr aclnnStatus kTiling = ACLNN_ERR_INNER_TILING_ERROR;
  const Product product = CurrentProduct();
  CheckProduct(kSwiGluProducts);
  const Argument x{"x", given.x};
  const Argument out{"out", given.out};
  for (const Argument& each : {x, out}) CheckDataType(each, FloatTypes());
  CheckSameDataType(out, x);
  const size_t axis = CheckDim(x, given.dim, kTiling);
  CheckNoNegativeDim(x);
  const Dims halved = Halved(x, axis);
  CheckShape(out, "the shape of x with half of dim", halved);
  if (x.tensor.empty()) {
    if (product != Product::k950) FailShape(x, "elements", kTiling);
    return {};
  }
  const GatedUnit unit = UnitOf(Gate::kSwiGlu, halved, axis, x.tensor.data_type);
  constexpr int64_t kBytes = 64;
  if (product == Product::k310P && unit.columns * static_cast<int64_t>(aclDataTypeSize(unit.type)) % kBytes != 0) {
    FailShape(x, "halves of a multiple of 64 bytes from dim " + std::to_string(axis) + " on", kTiling);
  }
  Plan plan = PlanOf({x}, {out});
  plan.PromiseTimeOfBytes();
  plan.SetKernel<GatedUnitValue>(unit);
  return plan;
}

Plan PlanGluBackward(const GluBackwardArguments& given) {
  CheckProduct(kAllProducts);
  const GatedTensors tensors{{"gradOut", given.grad_out}, {"self", given.self}, {"out", given.out}};
  const auto& [grad_out, self, out] = tensors;
  CheckDataType(self, FloatTypes({ACL_DOUBLE}));
  CheckSameDataType(grad_out, self);
  CheckSameDataType(out, self);
  for (const Argument& each : {self, out, grad_out}) CheckMostDims(each);
  return MakeGatedPlan(Gate::kGlu, tensors, given.dim, ACLNN_ERR_PARAM_INVALID, /*takes_empty=*/true);
}

Plan PlanSwiGluGrad(const SwiGluGradArguments& given) {
  CheckProduct(kSwiGluProducts);
  const GatedTensors tensors{{"yGrad", given.y_grad}, {"x", given.x}, {"out", given.out}};
  const auto& [y_grad, x, out] = tensors;
  for (const Argument& each : {y_grad, x, out}) CheckDataType(each, FloatTypes());
  CheckSameDataType(x, y_grad);
  CheckSameDataType(out, y_grad);
  return MakeGatedPlan(Gate::kSwiGlu, tensors, given.dim, ACLNN_ERR_INNER_TILING_ERROR, /*takes_empty=*/false);
}

}  // namespace acl_host
