// aclnnRmsNormGrad: its checks and its plan. CANN generates it: data types are checked as a combination (161002), and
// shapes by the tiling (561002).
#include <algorithm>
#include <cstring>
#include <string>

#include "families/layer_norm/chunks.h"
#include "families/layer_norm/computation.h"
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

// Returns the rows and columns.
LayerNorm CheckShapes(const Tensors& tensors) {
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
  LayerNorm norm{};
  norm.rows = ElementCount(Dims(dims.begin(), dims.begin() + leading));
  norm.columns = ElementCount(sizes);
  const Product product = CurrentProduct();
  if (norm.columns == 0 || (norm.rows == 0 && product != Product::k950)) FailTiling(tensors.x, "elements");
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
  LayerNorm norm = CheckShapes(tensors);
  for (const Argument& each : {tensors.dy, tensors.x, tensors.rstd, tensors.gamma, tensors.dx, tensors.dgamma}) {
    CheckAddressable(each);
  }
  Plan plan;
  plan.AddOutput(tensors.dgamma.tensor);
  plan.PromiseTimeOfBytes();
  if (norm.rows == 0) {
    plan.SetZeros();
    return plan;
  }
  const aclDataType type = tensors.x.tensor.data_type;
  for (const Argument& each : {tensors.dy, tensors.x, tensors.rstd, tensors.gamma}) plan.AddInput(each.tensor);
  plan.AddOutput(tensors.dx.tensor);
  norm.grad_out = {0, type};
  norm.input = {1, type};
  norm.rstd = {2, ACL_FLOAT};
  norm.weight = FloatOperand{3, tensors.gamma.tensor.data_type};
  norm.grad_weight = FloatOperand{0, ACL_FLOAT};
  norm.grad_input = FloatOperand{1, type};
  if (NeedsRowSums(norm)) plan.AddScratch(RowSumsBytes(norm));
  if (NeedsColumnSums(norm)) plan.AddScratch(ColumnSumsBytes(norm));
  plan.SetKernel<LayerNormBackward>(norm);
  return plan;
}

}  // namespace acl_host
