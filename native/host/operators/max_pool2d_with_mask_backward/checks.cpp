#include "checks.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <string>

#include "api/error.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

void CheckTensors(const Argument& grad_output, const Argument& self, const Argument& indices,
                  const Argument& grad_input) {
  CheckDataType(self, FloatTypes(CurrentProduct()));
  CheckSameDataType(grad_output, self);
  CheckSameDataType(grad_input, self);
  CheckDataType(indices, {ACL_INT8});

  CheckSameFormat(grad_output, self);
  CheckSameFormat(grad_input, self);
  for (const Argument& argument : {grad_output, self, indices, grad_input}) {
    CheckNotPrivateFormat(argument);
    CheckRank(argument, {3, 4});
  }
}

// The window, with the input's size and the output's still open.
MaxPool CheckWindow(const IntArrayArgument& kernel_size, const IntArrayArgument& stride,
                    const IntArrayArgument& padding, const IntArrayArgument& dilation) {
  CheckLength(stride, {0, 1, 2});
  CheckLength(padding, {1, 2});
  CheckLength(dilation, {1, 2});
  CheckEachPositive(kernel_size);
  CheckEachPositive(stride);

  MaxPool pool{};
  pool.kernel = ReadPair(kernel_size.values);
  pool.stride = stride.values.empty() ? pool.kernel : ReadPair(stride.values);
  pool.padding = ReadPair(padding.values);
  const auto padding_fits = [](int64_t value, int64_t kernel) { return 0 <= value && value <= kernel / 2; };
  if (!padding_fits(pool.padding.height, pool.kernel.height) || !padding_fits(pool.padding.width, pool.kernel.width)) {
    FailInvalid("padding: expected values from 0 to half of kernelSize, " + DimsText(kernel_size.values) + ", got " +
                DimsText(padding.values));
  }
  if (std::any_of(dilation.values.begin(), dilation.values.end(), [](int64_t value) { return value != 1; })) {
    FailInvalid("dilation: expected values of 1, got " + DimsText(dilation.values));
  }
  return pool;
}

void CheckShapes(const Argument& grad_output, const Argument& self, const Argument& grad_input, bool ceil_mode,
                 MaxPool& pool) {
  CheckSameShape(grad_input, self);
  CheckNoNegativeDim(self);
  Dims dims = self.tensor.view_dims;
  const auto inner = dims.end() - 3;
  if (std::find(inner, dims.end(), 0) != dims.end()) {
    FailInvalid("self: expected no empty dim but the batch, got shape " + DimsText(dims));
  }
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
    FailInvalid("gradOutput: expected shape " + DimsText(dims) + ", one element for each window, got " +
                DimsText(grad_output.tensor.view_dims));
  }
}

int64_t PositionsOf(const MaxPool& pool) { return pool.output.height * pool.output.width; }

// How many elements lie behind the address: what the storage's dims say, or the view's if they reach further.
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

// More than any buffer has, where the product exceeds 63 bits.
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

}  // namespace

MaxPool CheckMaxPool(const MaxPoolArguments& arguments) {
  if (std::strcmp(CurrentProduct().name, "950") == 0) {
    FailInvalid("the product 950 does not support this operator; use aclnnMaxPool2dWithIndicesBackward");
  }
  CheckProduct(CurrentProduct(), {"910A", "910B", "910_93"});
  const IntArrayArgument kernel_size{"kernelSize", arguments.kernel_size};
  const Argument self{"self", arguments.self};
  const Argument grad_output{"gradOutput", arguments.grad_output};
  if (!HasLength(kernel_size, {1, 2})) {
    // CANN's code for this one, whatever its documentation says.
    throw OperatorError(ACLNN_ERR_PARAM_NULLPTR, LengthMessage(kernel_size, {1, 2}));
  }
  const Argument indices{"indices", arguments.indices};
  const IntArrayArgument stride{"stride", arguments.stride};
  const IntArrayArgument padding{"padding", arguments.padding};
  const IntArrayArgument dilation{"dilation", arguments.dilation};
  const Argument grad_input{"gradInput", arguments.grad_input};
  CheckTensors(grad_output, self, indices, grad_input);
  MaxPool pool = CheckWindow(kernel_size, stride, padding, dilation);
  CheckShapes(grad_output, self, grad_input, arguments.ceil_mode, pool);
  CheckNoNegativeDim(indices);
  for (const Argument& argument : {grad_output, indices, grad_input}) CheckAddressable(argument);
  (void)ElementCount(grad_output.tensor.view_dims);
  (void)ElementCount(grad_input.tensor.view_dims);
  return pool;
}

bool UsesArgmax(const Product& product, const MaxPool& pool) {
  return std::strcmp(product.name, "910A") != 0 && !(pool.kernel == Pair{1, 1});
}

int64_t MaskChannelGroups(const MaxPool& pool) { return (pool.channels - 1) / kMaskChannels + 1; }

int64_t MaskWordsPerCell(const MaxPool& pool) {
  constexpr int64_t kGroup = 16;
  return ((PositionsOf(pool) - 1) / kGroup + 2) * kGroup;
}

aclTensor ArgmaxTensor(const aclTensor& indices, const MaxPool& pool) {
  // A device takes the positions from the storage's first byte on, whatever the view's offset and strides.
  const int64_t bytes = SaturatedProduct({int64_t{sizeof(int32_t)}, pool.batches, pool.channels, PositionsOf(pool)});
  CheckSize(indices, StorageElements(indices), bytes);
  return {{bytes}, {1}, 0, {bytes}, ACL_INT8, indices.format, indices.storage};
}

aclTensor MaskTensor(const aclTensor& indices, const MaxPool& pool) {
  const int64_t word_bytes = int64_t{sizeof(uint16_t)};
  const int64_t all_bytes = SaturatedProduct({word_bytes, pool.kernel.height, pool.kernel.width, pool.batches,
                                              MaskChannelGroups(pool), MaskWordsPerCell(pool)});
  // Behind the words of the last positions there is only padding, which nobody reads.
  const int64_t padding_bytes = (MaskWordsPerCell(pool) - PositionsOf(pool)) * word_bytes;
  CheckSize(indices, ElementCount(indices.view_dims), all_bytes - padding_bytes);
  return indices;
}

}  // namespace acl_host
