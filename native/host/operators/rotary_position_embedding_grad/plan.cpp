// aclnnRotaryPositionEmbeddingGrad: its checks and its plan. CANN generates it: data types are checked as a combination
// (161002), and mode and shapes by the tiling (561002).
#include <algorithm>
#include <string>

#include "computation.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

constexpr Products kProducts = {Product::k910B, Product::k910_93, Product::k950};
constexpr size_t kRank = 4;

struct Tensors {
  explicit Tensors(const RotaryPositionEmbeddingGradArguments& given)
      : dy("dy", given.dy),
        cos("cos", given.cos),
        sin("sin", given.sin),
        x(IfGiven("xOptional", given.x_optional)),
        dx("dxOut", given.dx_out),
        dcos("dcosOut", given.dcos_out),
        dsin("dsinOut", given.dsin_out) {}

  Argument dy;
  Argument cos;
  Argument sin;
  OptionalArgument x;
  Argument dx;
  Argument dcos;
  Argument dsin;
};

[[noreturn]] void FailTiling(const Argument& argument, const std::string& expected) {
  FailShape(argument, expected, ACLNN_ERR_INNER_TILING_ERROR);
}

void ExpectShape(const Argument& argument, const Argument& reference) {
  if (argument.tensor.view_dims == reference.tensor.view_dims) return;
  FailTiling(argument, "the shape of " + std::string(reference.name) + ", " + DimsText(reference.tensor.view_dims));
}

void CheckTypes(const Tensors& tensors) {
  CheckDataType(tensors.dy, FloatTypes());
  CheckSameDataType(tensors.cos, tensors.dy);
  CheckSameDataType(tensors.sin, tensors.dy);
  if (tensors.x) CheckSameDataType(*tensors.x, tensors.dy);
  for (const Argument& each : {tensors.dx, tensors.dcos, tensors.dsin}) CheckSameDataType(each, tensors.dy);
}

// A2 and A3 tell the layout of dy, of four, by the axes along which cos has a size of 1.
bool IsKnown(const Dims& dy, const Dims& cos, bool is_interleaved) {
  const Dims sizes(cos.begin(), cos.end() - 1);
  const int64_t a = dy[0];
  const int64_t b = dy[1];
  const int64_t c = dy[2];
  if (is_interleaved) return sizes == Dims{1, b, 1} || sizes == Dims{1, 1, c} || sizes == Dims{a, 1, 1};
  return sizes == Dims{a, b, c} || sizes == Dims{a, b, 1} || (sizes == Dims{a, 1, 1} && b != 1) ||
         (sizes == Dims{1, b, 1} && a != 1) || (sizes == Dims{1, 1, c} && a != 1) || (sizes == Dims{a, 1, c} && a < c);
}

bool IsBroadcast(const Dims& dy, const Dims& cos) {
  return std::equal(dy.begin(), dy.end(), cos.begin(),
                    [](int64_t of_dy, int64_t of_cos) { return of_cos == 1 || of_cos == of_dy; });
}

void CheckShapes(const Tensors& tensors, bool is_interleaved) {
  const Dims& dims = tensors.dy.tensor.view_dims;
  const Dims& cos = tensors.cos.tensor.view_dims;
  const bool is_950 = CurrentProduct() == Product::k950;
  const int64_t most = is_950 ? 1024 : 896;
  for (const Argument& each : {tensors.dy, tensors.cos}) {
    if (each.tensor.view_dims.size() != kRank) FailTiling(each, "4 dims");
  }
  ExpectShape(tensors.sin, tensors.cos);
  if (std::any_of(dims.begin(), dims.end(), [](int64_t dim) { return dim < 0; })) {
    FailTiling(tensors.dy, "no negative dim");
  }
  if (dims[3] % 2 != 0 || dims[3] > most) FailTiling(tensors.dy, "an even last dim up to " + std::to_string(most));
  if (cos[3] != dims[3]) FailTiling(tensors.cos, "the last dim of dy, " + std::to_string(dims[3]));
  if (is_950 ? !IsBroadcast(dims, cos) : !IsKnown(dims, cos, is_interleaved)) {
    FailTiling(tensors.cos, "dims of dy, " + DimsText(dims) + ", and 1 along those that share it");
  }
  // No device compares these, of which some are not looked at without x.
  ExpectShape(tensors.dx, tensors.dy);
  if (tensors.x) {
    ExpectShape(*tensors.x, tensors.dy);
    ExpectShape(tensors.dcos, tensors.cos);
    ExpectShape(tensors.dsin, tensors.cos);
  }
  if (tensors.dy.tensor.empty()) FailTiling(tensors.dy, "elements");
}

// Puts an axis, behind those that were there.
void Append(RowSteps& steps, int64_t size, int64_t stride) {
  if (size == 1) return;
  if (steps.count == 1) {
    steps = {size, size, 0, stride};
  } else if (steps.inner == steps.count && steps.inner_stride == size * stride) {
    steps = {steps.count * size, steps.count * size, 0, stride};
  } else if (steps.inner == steps.count) {
    steps = {steps.count * size, size, steps.inner_stride, stride};
  }
}

RotaryEmbedding LayOut(const Tensors& tensors, bool is_interleaved) {
  const Dims& dims = tensors.dy.tensor.view_dims;
  const Dims& cos = tensors.cos.tensor.view_dims;
  RotaryEmbedding rotary{};
  rotary.columns = dims[3];
  rotary.type = tensors.dy.tensor.data_type;
  rotary.is_interleaved = is_interleaved;
  rotary.has_x = tensors.x.has_value();
  int64_t stride = dims[0] * dims[1] * dims[2];
  for (size_t axis = 0; axis < kRank - 1; ++axis) {
    stride /= dims[axis];
    Append(cos[axis] == 1 ? rotary.shared : rotary.own, dims[axis], stride);
  }
  return rotary;
}

}  // namespace

Plan PlanRotaryPositionEmbeddingGrad(const RotaryPositionEmbeddingGradArguments& given) {
  CheckProduct(kProducts);
  const Tensors tensors(given);
  CheckTypes(tensors);
  // The 950 has two more, which the host library does not.
  if (given.mode != 0 && given.mode != 1) {
    throw OperatorError(ACLNN_ERR_INNER_TILING_ERROR,
                        "mode: expected 0 (half) or 1 (interleave), got " + std::to_string(given.mode));
  }
  const bool is_interleaved = given.mode == 1;
  CheckShapes(tensors, is_interleaved);
  Plan plan = PlanOf({tensors.dy, tensors.cos, tensors.sin}, {tensors.dx});
  if (tensors.x) {
    for (const Argument& each : {*tensors.x, tensors.dcos, tensors.dsin}) CheckAddressable(each);
    plan.AddInput(tensors.x->tensor);
    plan.AddOutput(tensors.dcos.tensor);
    plan.AddOutput(tensors.dsin.tensor);
  }
  const RotaryEmbedding rotary = LayOut(tensors, is_interleaved);
  if (rotary.sum_bytes() > 0) plan.AddScratch(rotary.sum_bytes());
  plan.PromiseTimeOfBytes();
  plan.SetKernel<RotaryEmbeddingGradient>(rotary);
  return plan;
}

}  // namespace acl_host
