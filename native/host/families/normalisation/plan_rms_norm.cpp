// aclnnRmsNorm: its checks and its plan. CANN generates it: data types are checked as a combination (161002), and
// shapes by the tiling (561002).
#include <algorithm>
#include <string>

#include "families/normalisation/operands.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

constexpr Products kProducts = {Product::k910B, Product::k910_93, Product::k310P, Product::k950};
constexpr aclnnStatus kTiling = ACLNN_ERR_INNER_TILING_ERROR;

struct Tensors {
  explicit Tensors(const RmsNormArguments& given)
      : x("x", given.x), gamma("gamma", given.gamma), y("yOut", given.y_out), rstd("rstdOut", given.rstd_out) {}

  Argument x;
  Argument gamma;
  Argument y;
  Argument rstd;
};

// Products without BF16 have no mixed combinations either.
void CheckTypes(const Tensors& tensors) {
  CheckDataType(tensors.x, FloatTypes());
  if (!HasBf16(CurrentProduct()) || tensors.gamma.tensor.data_type != ACL_FLOAT) {
    CheckSameDataType(tensors.gamma, tensors.x);
  }
  CheckSameDataType(tensors.y, tensors.x);
  CheckDataType(tensors.rstd, {ACL_FLOAT});
}

// Returns the rows and columns, as samples and channels. The tiling does not look at the rank of rstdOut.
NormalisationValue CheckShapes(const Tensors& tensors) {
  const Dims& dims = tensors.x.tensor.view_dims;
  const Dims& sizes = tensors.gamma.tensor.view_dims;
  if (dims.empty() || dims.size() > 8) FailShape(tensors.x, "1 to 8 dims", kTiling);
  if (sizes.empty() || sizes.size() > dims.size() || !std::equal(sizes.rbegin(), sizes.rend(), dims.rbegin())) {
    FailShape(tensors.gamma, "the last dims of x, " + DimsText(dims), kTiling);
  }
  if (std::any_of(dims.begin(), dims.end(), [](int64_t dim) { return dim <= 0; })) {
    FailShape(tensors.x, "dims above 0", kTiling);
  }
  if (tensors.y.tensor.view_dims != dims) FailShape(tensors.y, "the shape of x, " + DimsText(dims), kTiling);
  Dims rows(dims.begin(), dims.end() - static_cast<int64_t>(sizes.size()));
  NormalisationValue norm{};
  norm.samples = ElementCount(rows);
  norm.channels = ElementCount(sizes);
  norm.cells = 1;
  norm.groups = 1;
  norm.is_centred = false;
  rows.resize(dims.size(), 1);
  if (tensors.rstd.tensor.view_dims != rows) {
    FailShape(tensors.rstd, "one value for each row, of shape " + DimsText(rows), kTiling);
  }
  constexpr int64_t kLeastBytes = 32;
  if (CurrentProduct() == Product::k310P &&
      dims.back() * static_cast<int64_t>(aclDataTypeSize(tensors.x.tensor.data_type)) < kLeastBytes) {
    FailShape(tensors.x, "a last dim of at least 32 bytes", kTiling);
  }
  return norm;
}

}  // namespace

Plan PlanRmsNorm(const RmsNormArguments& given) {
  CheckProduct(kProducts);
  const Tensors tensors(given);
  CheckTypes(tensors);
  NormalisationValue norm = CheckShapes(tensors);
  if (!(given.epsilon >= 0)) {
    throw OperatorError(kTiling, "epsilon: expected at least 0, got " + std::to_string(given.epsilon));
  }
  norm.eps = static_cast<float>(given.epsilon);
  Plan plan;
  NormalisationOperands operands(plan);
  norm.input = operands.AddInput(tensors.x);
  norm.weight = operands.AddInput(tensors.gamma);
  norm.out = operands.AddOutput(tensors.y);
  norm.rstd = operands.AddOutput(tensors.rstd);
  SetNormalisation(plan, norm);
  return plan;
}

}  // namespace acl_host
