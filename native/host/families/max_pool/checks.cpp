#include "families/max_pool/checks.h"

#include <algorithm>
#include <string>

namespace acl_host {
namespace {

// The cells from a window's first to its last.
int64_t Span(int64_t kernel, int64_t dilation) {
  int64_t span = 0;
  if (__builtin_mul_overflow(kernel - 1, dilation, &span) || span == INT64_MAX) {
    FailInvalid("dilation: expected windows of less than 2^63 cells, got " + std::to_string(dilation) +
                " for a kernelSize of " + std::to_string(kernel));
  }
  return span + 1;
}

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

}  // namespace

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

Dims CheckSizes(const Argument& self, bool ceil_mode, MaxPool& pool) {
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
  return dims;
}

bool HasPositions(Product product, const MaxPool& pool) {
  const bool is_a2_or_a3 = product == Product::k910B || product == Product::k910_93;
  return is_a2_or_a3 && !(pool.kernel == Pair{1, 1});
}

int64_t SaturatedProduct(std::initializer_list<int64_t> factors) {
  int64_t product = 1;
  for (const int64_t factor : factors) {
    if (__builtin_mul_overflow(product, factor, &product)) return INT64_MAX;
  }
  return product;
}

int64_t PositionBytes(const MaxPool& pool) {
  return SaturatedProduct({int64_t{sizeof(int32_t)}, pool.batches, pool.channels, PositionsOf(pool)});
}

int64_t WordBytes(const MaxPool& pool) {
  return SaturatedProduct({int64_t{sizeof(uint16_t)}, pool.kernel.height, pool.kernel.width, pool.batches,
                           MaskChannelGroups(pool), MaskWordsPerCell(pool)});
}

aclTensor BytesOf(const aclTensor& indices, int64_t bytes) {
  CheckBytes(indices, StorageElements(indices), bytes);
  return {{bytes}, {1}, 0, {bytes}, ACL_INT8, indices.format, indices.storage};
}

void CheckBytes(const aclTensor& indices, int64_t bytes, int64_t needed_bytes) {
  if (bytes >= needed_bytes) return;
  FailInvalid("indices: expected at least " + std::to_string(needed_bytes) + " bytes, got " + std::to_string(bytes) +
              " in shape " + DimsText(indices.view_dims));
}

}  // namespace acl_host
