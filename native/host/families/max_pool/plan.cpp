// The gradients of max pooling: their checks, in CANN's order and with CANN's codes, and their plans.
#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include "device/runtime.h"
#include "families/max_pool/computation.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

constexpr Products kWithIndices = {Product::k910B, Product::k910_93, Product::k950};
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

// The cells from a window's first to its last.
int64_t Span(int64_t kernel, int64_t dilation) {
  int64_t span = 0;
  if (__builtin_mul_overflow(kernel - 1, dilation, &span) || span == INT64_MAX) {
    FailInvalid("dilation: expected windows of less than 2^63 cells, got " + std::to_string(dilation) +
                " for a kernelSize of " + std::to_string(kernel));
  }
  return span + 1;
}

// Returns the pooling's windows; the sizes of input and output are set later.
MaxPool CheckPooling(const IntArrayArgument& kernel_size, const IntArrayArgument& stride,
                     const IntArrayArgument& padding, const IntArrayArgument& dilation, bool takes_dilation) {
  const Windows windows = CheckWindows(kernel_size, stride, padding);
  CheckLength(dilation, {1, 2});
  if (takes_dilation) {
    CheckEachPositive(dilation);
  } else if (std::any_of(dilation.values.begin(), dilation.values.end(), [](int64_t value) { return value != 1; })) {
    FailInvalid("dilation: expected values of 1, got " + DimsText(dilation.values));
  }
  const Pair between = ReadPair(dilation.values);
  MaxPool pool{};
  pool.kernel = {Span(windows.kernel.height, between.height), Span(windows.kernel.width, between.width)};
  pool.stride = windows.stride;
  pool.padding = windows.padding;
  return pool;
}

void CheckShapes(const Argument& grad_output, const Argument& self, const Argument& grad_input, bool ceil_mode,
                 MaxPool& pool) {
  CheckSameShape(grad_input, self);
  CheckNoNegativeDim(self);
  Dims dims = self.tensor.view_dims;
  const auto inner = dims.end() - 3;
  CheckNoEmptyDim(self, dims.size() - 3);
  pool.batches = dims.size() == 4 ? dims[0] : 1;
  pool.channels = inner[0];
  pool.input = {inner[1], inner[2]};
  pool.output = {PooledSize(pool.input.height, pool.kernel.height, pool.stride.height, pool.padding.height, ceil_mode),
                 PooledSize(pool.input.width, pool.kernel.width, pool.stride.width, pool.padding.width, ceil_mode)};
  if (pool.output.height <= 0 || pool.output.width <= 0) {
    FailInvalid("kernelSize: expected a window that fits self, of shape " + DimsText(dims) + ", but there would be " +
                DimsText({pool.output.height, pool.output.width}) + " windows");
  }
  inner[1] = pool.output.height;
  inner[2] = pool.output.width;
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

int64_t PositionsOf(const MaxPool& pool) { return pool.output.height * pool.output.width; }

// The number of elements behind the address: that of the storage's dims, or of the view if it reaches further.
int64_t StorageElements(const aclTensor& tensor) {
  int64_t view_end = 0;
  if (!tensor.empty()) {
    view_end = tensor.offset + 1;
    for (size_t axis = 0; axis < tensor.view_dims.size(); ++axis) {
      view_end += (tensor.view_dims[axis] - 1) * std::max<int64_t>(tensor.strides[axis], 0);
    }
  }
  return std::max(view_end, ElementCount(tensor.storage_dims));
}

// INT64_MAX, which is more than any buffer has, if the product exceeds 63 bits.
int64_t SaturatedProduct(std::initializer_list<int64_t> factors) {
  int64_t product = 1;
  for (const int64_t factor : factors) {
    if (__builtin_mul_overflow(product, factor, &product)) return INT64_MAX;
  }
  return product;
}

void CheckSize(const aclTensor& indices, int64_t size_bytes, int64_t needed_bytes) {
  if (size_bytes >= needed_bytes) return;
  FailInvalid("indices: expected at least " + std::to_string(needed_bytes) + " bytes, got " +
              std::to_string(size_bytes) + " in shape " + DimsText(indices.view_dims));
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

// Which of the two layouts indices has: INT32 positions, or the mask of UINT16 words.
bool UsesArgmax(Product product, const MaxPool& pool) {
  return product != Product::k910A && !(pool.kernel == Pair{1, 1});
}

// The bytes that are read, as a tensor. Both throw if indices has fewer. CANN computes the shape that indices should
// have but ignores the result, so any shape with enough bytes is legal.
aclTensor ArgmaxTensor(const aclTensor& indices, const MaxPool& pool) {
  // A device reads the positions from the storage's first byte on, and ignores the view's offset and strides.
  const int64_t bytes = SaturatedProduct({int64_t{sizeof(int32_t)}, pool.batches, pool.channels, PositionsOf(pool)});
  CheckSize(indices, StorageElements(indices), bytes);
  return {{bytes}, {1}, 0, {bytes}, ACL_INT8, indices.format, indices.storage};
}

aclTensor MaskTensor(const aclTensor& indices, const MaxPool& pool) {
  const int64_t word_bytes = int64_t{sizeof(uint16_t)};
  const int64_t all_bytes = SaturatedProduct({word_bytes, pool.kernel.height, pool.kernel.width, pool.batches,
                                              MaskChannelGroups(pool), MaskWordsPerCell(pool)});
  // Behind the words of the last positions there is only padding, which is never read.
  const int64_t padding_bytes = (MaskWordsPerCell(pool) - PositionsOf(pool)) * word_bytes;
  CheckSize(indices, ElementCount(indices.view_dims), all_bytes - padding_bytes);
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
  const bool has_positions = UsesArgmax(CurrentProduct(), pool);
  pool.index_type = has_positions ? ACL_INT32 : ACL_UINT16;
  return MakeMaxPoolPlan(pool, arguments,
                         has_positions ? ArgmaxTensor(*arguments.indices, pool) : MaskTensor(*arguments.indices, pool));
}

}  // namespace acl_host
