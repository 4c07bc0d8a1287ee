// aclnnRmsNormGrad: its checks and its plan. CANN generates it: data types are checked as a combination (161002), and
// shapes by the tiling (561002).
#include <algorithm>
#include <string>

#include "families/normalisation/operands.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

constexpr Products kProducts = {Product::k910B, Product::k910_93, Product::k310P, Product::k950};

struct Tensors {
  explicit Tensors(const RmsNormGradArguments& given)
      : dy("dy", given.dy),
        x("x", given.x),
        rstd("rstd", given.rstd),
        gamma("gamma", given.gamma),
        dx("dxOut", given.dx_out),
        dgamma("dgammaOut", given.dgamma_out) {}

  Argument dy;
  Argument x;
  Argument rstd;
  Argument gamma;
  Argument dx;
  Argument dgamma;
};

void CheckTypes(const Tensors& tensors) {
  const Product product = CurrentProduct();
  CheckDataType(tensors.dy, FloatTypes());
  CheckSameDataType(tensors.x, tensors.dy);
  CheckSameDataType(tensors.dx, tensors.dy);
  CheckDataType(tensors.rstd, {ACL_FLOAT});
  CheckDataType(tensors.dgamma, {ACL_FLOAT});
  // Products without BF16 have no mixed combinations either.
  if (!HasBf16(product) || tensors.gamma.tensor.data_type != ACL_FLOAT) CheckSameDataType(tensors.gamma, tensors.dy);
}

[[noreturn]] void FailTiling(const Argument& argument, const std::string& expected) {
  FailShape(argument, expected, ACLNN_ERR_INNER_TILING_ERROR);
}

void ExpectShape(const Argument& argument, const Argument& reference) {
  if (argument.tensor.view_dims == reference.tensor.view_dims) return;
  FailTiling(argument, "the shape of " + std::string(reference.name) + ", " + DimsText(reference.tensor.view_dims));
}

bool IsNegative(int64_t dim) { return dim < 0; }

// Returns the rows and columns, as samples and channels.
Normalisation CheckShapes(const Tensors& tensors) {
  const Dims& dims = tensors.x.tensor.view_dims;
  const Dims& sizes = tensors.gamma.tensor.view_dims;
  const Dims& rstd = tensors.rstd.tensor.view_dims;
  if (dims.empty() || dims.size() > 8 || std::any_of(dims.begin(), dims.end(), IsNegative)) {
    FailTiling(tensors.x, "1 to 8 dims");
  }
  ExpectShape(tensors.dy, tensors.x);
  ExpectShape(tensors.dx, tensors.x);
  if (sizes.empty() || sizes.size() > dims.size() || !std::equal(sizes.rbegin(), sizes.rend(), dims.rbegin())) {
    FailTiling(tensors.gamma, "the last dims of x, " + DimsText(dims));
  }
  ExpectShape(tensors.dgamma, tensors.gamma);
  const auto leading = static_cast<int64_t>(dims.size() - sizes.size());
  const auto is_one = [](int64_t dim) { return dim == 1; };
  if (static_cast<int64_t>(rstd.size()) < leading || !std::equal(dims.begin(), dims.begin() + leading, rstd.begin()) ||
      !std::all_of(rstd.begin() + leading, rstd.end(), is_one)) {
    FailTiling(tensors.rstd, "the leading dims of x, " + DimsText(Dims(dims.begin(), dims.begin() + leading)));
  }
  Normalisation norm{};
  norm.samples = ElementCount(Dims(dims.begin(), dims.begin() + leading));
  norm.channels = ElementCount(sizes);
  norm.cells = 1;
  norm.groups = 1;
  norm.is_centred = false;
  const Product product = CurrentProduct();
  if (norm.channels == 0 || (norm.samples == 0 && product != Product::k950)) FailTiling(tensors.x, "elements");
  constexpr int64_t kLeastBytes = 32;
  if (product == Product::k310P &&
      dims.back() * static_cast<int64_t>(aclDataTypeSize(tensors.x.tensor.data_type)) < kLeastBytes) {
    FailTiling(tensors.x, "a last dim of at least 32 bytes");
  }
  return norm;
}

}  // namespace

Plan PlanRmsNormGrad(const RmsNormGradArguments& arguments) {
  CheckProduct(kProducts);
  const Tensors tensors(arguments);
  CheckTypes(tensors);
  Normalisation norm = CheckShapes(tensors);
  for (const Argument& each : {tensors.dy, tensors.x, tensors.rstd, tensors.gamma, tensors.dx, tensors.dgamma}) {
    CheckAddressable(each);
  }
  Plan plan;
  if (norm.samples == 0) {
    plan.AddOutput(tensors.dgamma.tensor);
    plan.PromiseTimeOfBytes();
    plan.SetZeros();
    return plan;
  }
  NormalisationOperands operands(plan);
  norm.grad_out = operands.AddInput(tensors.dy);
  norm.input = operands.AddInput(tensors.x);
  norm.rstd = operands.AddInput(tensors.rstd);
  norm.weight = operands.AddInput(tensors.gamma);
  norm.grad_input = operands.AddOutput(tensors.dx);
  norm.grad_weight = operands.AddOutput(tensors.dgamma);
  SetNormalisation(plan, norm);
  return plan;
}

}  // namespace acl_host
