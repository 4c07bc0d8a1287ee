// aclnnMaxPool2dWithMaskBackward: its checks and its plan.
#include <algorithm>
#include <initializer_list>
#include <string>

#include "computation.h"
#include "families/max_pool/checks.h"
#include "families/max_pool/computation.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

constexpr Products kProducts = {Product::k910A, Product::k910B, Product::k910_93};

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

// Checks in CANN's order and with CANN's codes.
MaxPool CheckMaskedPool(const MaxPoolArguments& arguments) {
  if (CurrentProduct() == Product::k950) {
    FailInvalid("the product 950 does not support this operator; use aclnnMaxPool2dWithIndicesBackward");
  }
  CheckProduct(kProducts);
  const IntArrayArgument kernel_size{"kernelSize", arguments.kernel_size};
  const Argument self{"self", arguments.self};
  const Argument grad_output{"gradOutput", arguments.grad_output};
  if (!HasLength(kernel_size, {1, 2})) {
    // CANN's actual code, which differs from its documentation.
    throw OperatorError(ACLNN_ERR_PARAM_NULLPTR, LengthMessage(kernel_size, {1, 2}));
  }
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

Plan PlanMaxPool2dWithMaskBackward(const MaxPool2dWithMaskBackwardArguments& arguments) {
  MaxPool pool = CheckMaskedPool(arguments);
  if (pool.batches == 0) return {};
  if (!UsesArgmax(CurrentProduct(), pool)) {
    return MakeMaxPoolPlan<MaxPoolOfBits>(pool, arguments, MaskTensor(*arguments.indices, pool));
  }
  pool.index_type = ACL_INT32;
  return MakeMaxPoolPlan<MaxPoolBackward>(pool, arguments, ArgmaxTensor(*arguments.indices, pool));
}

}  // namespace acl_host
