// The gradients of max pooling: their checks, in CANN's order and with CANN's codes, and their plans.
#include <algorithm>
#include <string>
#include <vector>

#include "device/runtime.h"
#include "families/max_pool/checks.h"
#include "families/max_pool/computation.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

constexpr Products kWithMask = {Product::k910A, Product::k910B, Product::k910_93};

// The operators have the same arguments.
using MaxPoolArguments = MaxPool2dWithIndicesBackwardArguments;

// The differences between operators and products.
struct MaxPoolRules {
  std::vector<aclDataType> types;
  std::vector<aclDataType> index_types;
  bool takes_dilation;
};

void CheckTensors(const Argument& grad_output, const Argument& self, const Argument& indices,
                  const Argument& grad_input, const MaxPoolRules& rules) {
  CheckDataType(self, rules.types);
  CheckSameDataType(grad_output, self);
  CheckSameDataType(grad_input, self);
  CheckDataType(indices, rules.index_types);

  CheckSameFormat(grad_output, self);
  CheckSameFormat(grad_input, self);
  for (const Argument& argument : {grad_output, self, indices, grad_input}) {
    CheckNotPrivateFormat(argument);
    CheckRank(argument, {3, 4});
  }
}

void CheckShapes(const Argument& grad_output, const Argument& self, const Argument& grad_input, bool ceil_mode,
                 MaxPool& pool) {
  CheckSameShape(grad_input, self);
  const Dims dims = CheckSizes(self, ceil_mode, pool);
  if (grad_output.tensor.view_dims != dims) {
    FailShape(grad_output, "shape " + DimsText(dims) + ", one element for each window");
  }
}

// Checks all but the shape of indices.
MaxPool CheckMaxPool(const MaxPoolArguments& arguments, const MaxPoolRules& rules) {
  const Argument grad_output{"gradOutput", arguments.grad_output};
  const Argument self{"self", arguments.self};
  const Argument indices{"indices", arguments.indices};
  const IntArrayArgument kernel_size{"kernelSize", arguments.kernel_size};
  const IntArrayArgument stride{"stride", arguments.stride};
  const IntArrayArgument padding{"padding", arguments.padding};
  const IntArrayArgument dilation{"dilation", arguments.dilation};
  const Argument grad_input{"gradInput", arguments.grad_input};
  CheckTensors(grad_output, self, indices, grad_input, rules);
  MaxPool pool = CheckPooling(kernel_size, stride, padding, dilation, rules.takes_dilation);
  CheckShapes(grad_output, self, grad_input, arguments.ceil_mode, pool);
  pool.index_type = indices.tensor.data_type;
  CheckNoNegativeDim(indices);
  for (const Argument& argument : {grad_output, indices, grad_input}) CheckAddressable(argument);
  (void)ElementCount(grad_output.tensor.view_dims);
  (void)ElementCount(grad_input.tensor.view_dims);
  return pool;
}

// indices is the tensor that the kernel reads.
Plan MakeMaxPoolPlan(const MaxPool& pool, const MaxPoolArguments& arguments, const aclTensor& indices) {
  const aclDataType type = arguments.self->data_type;
  Plan plan =
      PlanOf({{"gradOutput", arguments.grad_output}, {"indices", &indices}}, {{"gradInput", arguments.grad_input}});
  const TileWork work = WorkOf(pool, static_cast<int64_t>(aclDataTypeSize(type)));
  // For the sums of all tiles that are computed at once.
  const int64_t slots =
      std::min<int64_t>(MostPieces(TilesOf(pool, TileSize(pool)), work), Runtime::Current()->config().threads);
  // Plus room to align the start.
  plan.AddScratch(TileBytes(pool) * static_cast<uint64_t>(slots) + alignof(double));
  plan.PromiseTimeOfBytes();
  plan.SetKernel<MaxPoolBackward>(pool, type, slots);
  return plan;
}

// Phase 1 of Atlas A2 and A3 also accepts INT8 indices, for which they have no kernel.
MaxPoolRules RulesOf(Product product) {
  if (product != Product::k950) return {{ACL_FLOAT}, {ACL_INT32}, /*takes_dilation=*/false};
  return {FloatTypes(), {ACL_INT32, ACL_INT64}, /*takes_dilation=*/true};
}

MaxPool CheckMaskedPool(const MaxPoolArguments& arguments) {
  if (CurrentProduct() == Product::k950) {
    FailInvalid("the product 950 does not support this operator; use aclnnMaxPool2dWithIndicesBackward");
  }
  CheckProduct(kWithMask);
  const IntArrayArgument kernel_size{"kernelSize", arguments.kernel_size};
  const Argument self{"self", arguments.self};
  const Argument grad_output{"gradOutput", arguments.grad_output};
  // CANN's actual code, which differs from its documentation.
  CheckLength(kernel_size, {1, 2}, ACLNN_ERR_PARAM_NULLPTR);
  return CheckMaxPool(arguments, {FloatTypes(), {ACL_INT8}, /*takes_dilation=*/false});
}

// The bytes that are read, as a tensor. Both fail if indices has fewer. CANN computes the shape that indices should
// have but ignores the result, so any shape with enough bytes is legal.
aclTensor ArgmaxTensor(const aclTensor& indices, const MaxPool& pool) { return BytesOf(indices, PositionBytes(pool)); }

aclTensor MaskTensor(const aclTensor& indices, const MaxPool& pool) {
  // Behind the words of the last positions there is only padding, which is never read.
  const int64_t padding_bytes = (MaskWordsPerCell(pool) - PositionsOf(pool)) * int64_t{sizeof(uint16_t)};
  CheckBytes(indices, ElementCount(indices.view_dims), WordBytes(pool) - padding_bytes);
  return indices;
}

}  // namespace

Plan PlanMaxPool2dWithIndicesBackward(const MaxPoolArguments& arguments) {
  CheckProduct(kWithIndices);
  const MaxPoolRules rules = RulesOf(CurrentProduct());
  const MaxPool pool = CheckMaxPool(arguments, rules);
  // A device detects this too late, and computes anyway.
  CheckSameShape({"indices", arguments.indices}, {"gradOutput", arguments.grad_output});
  if (!rules.takes_dilation && pool.input.height > INT32_MAX / pool.input.width) {
    FailShape({"self", arguments.self}, "planes of less than 2^31 cells");
  }
  if (pool.batches == 0) return {};
  return MakeMaxPoolPlan(pool, arguments, *arguments.indices);
}

Plan PlanMaxPool2dWithMaskBackward(const MaxPoolArguments& arguments) {
  MaxPool pool = CheckMaskedPool(arguments);
  if (pool.batches == 0) return {};
  const bool has_positions = HasPositions(CurrentProduct(), pool);
  pool.index_type = has_positions ? ACL_INT32 : ACL_UINT16;
  return MakeMaxPoolPlan(pool, arguments,
                         has_positions ? ArgmaxTensor(*arguments.indices, pool) : MaskTensor(*arguments.indices, pool));
}

}  // namespace acl_host
