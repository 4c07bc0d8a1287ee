#include "families/max_pool/checks.h"

#include <algorithm>
#include <string>

#include "device/runtime.h"
#include "plan/checks.h"
#include "tensors/axes.h"

namespace acl_host {
namespace {

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
MaxPool CheckWindow(const IntArrayArgument& kernel_size, const IntArrayArgument& stride,
                    const IntArrayArgument& padding, const IntArrayArgument& dilation, bool takes_dilation) {
  CheckLength(kernel_size, {1, 2});
  CheckLength(stride, {0, 1, 2});
  CheckLength(padding, {1, 2});
  CheckLength(dilation, {1, 2});
  CheckEachPositive(kernel_size);
  CheckEachPositive(stride);

  const Pair kernel = ReadPair(kernel_size.values);
  MaxPool pool{};
  pool.stride = stride.values.empty() ? kernel : ReadPair(stride.values);
  pool.padding = ReadPair(padding.values);
  CheckHalfPadding(padding, kernel_size);
  if (takes_dilation) {
    CheckEachPositive(dilation);
  } else if (std::any_of(dilation.values.begin(), dilation.values.end(), [](int64_t value) { return value != 1; })) {
    FailInvalid("dilation: expected values of 1, got " + DimsText(dilation.values));
  }
  const Pair between = ReadPair(dilation.values);
  pool.kernel = {Span(kernel.height, between.height), Span(kernel.width, between.width)};
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

}  // namespace

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
  MaxPool pool = CheckWindow(kernel_size, stride, padding, dilation, rules.takes_dilation);
  CheckShapes(grad_output, self, grad_input, arguments.ceil_mode, pool);
  pool.index_type = indices.tensor.data_type;
  CheckNoNegativeDim(indices);
  for (const Argument& argument : {grad_output, indices, grad_input}) CheckAddressable(argument);
  (void)ElementCount(grad_output.tensor.view_dims);
  (void)ElementCount(grad_input.tensor.view_dims);
  return pool;
}

int64_t AddSums(Plan& plan, const MaxPool& pool, int64_t element_bytes) {
  const Tiles tiles = TilesOf(pool, TileSize(pool));
  const int64_t pieces = MostPieces(tiles, WorkOf(pool, element_bytes));
  const int64_t slots = std::min<int64_t>(pieces, Runtime::Current()->config().threads);
  // Plus room to align the start.
  plan.AddScratch(TileBytes(pool) * static_cast<uint64_t>(slots) + alignof(double));
  return slots;
}

}  // namespace acl_host
