// aclnnAvgPool2dBackward: its checks and its plan.
#include <algorithm>
#include <string>

#include "families/average_pool/computation.h"
#include "operator_plans.h"
#include "plan/checks.h"
#include "tensors/axes.h"
#include "tensors/data_type.h"

namespace acl_host {
namespace {

constexpr Products kProducts = {Product::k910A, Product::k910B, Product::k910_93, Product::k310P, Product::k950};

struct WindowSizes {
  Pair kernel;
  Pair stride;
  Pair padding;
};

void CheckTensors(const Argument& grad_output, const Argument& self, const Argument& grad_input) {
  for (const Argument& argument : {grad_output, self, grad_input}) {
    CheckDataType(argument, FloatTypes());
  }
  CheckSameDataType(grad_input, grad_output);
  for (const Argument& argument : {grad_output, self, grad_input}) {
    if (argument.tensor.format != ACL_FORMAT_NCL) CheckFormat(argument, ACL_FORMAT_NCHW);
  }
  for (const Argument& argument : {grad_output, grad_input}) {
    if (argument.tensor.rank() == 4) CheckFormat(argument, ACL_FORMAT_NCHW);
  }
  CheckRank(grad_output, {3, 4});
  CheckSameRank(grad_input, grad_output);
  for (const Argument& argument : {grad_output, self, grad_input}) CheckNoNegativeDim(argument);
}

WindowSizes CheckWindows(const IntArrayArgument& kernel_size, const IntArrayArgument& stride,
                         const IntArrayArgument& padding) {
  CheckLength(kernel_size, {1, 2});
  CheckEachPositive(kernel_size);
  CheckLength(stride, {0, 1, 2});
  CheckEachPositive(stride);
  CheckLength(padding, {1, 2});
  const Pair kernel = ReadPair(kernel_size.values);
  const Pair pads = ReadPair(padding.values);
  CheckHalfPadding(padding, kernel_size);
  return {kernel, stride.values.empty() ? kernel : ReadPair(stride.values), pads};
}

// Products without BF16 compute a convolution in FLOAT16, and refuse FLOAT unless cubeMathType allows that.
void CheckPrecision(const AvgPool2dBackwardArguments& arguments) {
  if (arguments.cube_math_type < 0 || arguments.cube_math_type > 3) {
    FailInvalid("cubeMathType: expected a value from 0 to 3, got " + std::to_string(arguments.cube_math_type));
  }
  if (HasBf16(CurrentProduct())) return;
  if (arguments.divisor_override < -255 || arguments.divisor_override > 255) {
    FailInvalid("divisorOverride: expected a value from -255 to 255, got " +
                std::to_string(arguments.divisor_override));
  }
  const bool is_single = arguments.grad_output->data_type == ACL_FLOAT;
  if (arguments.cube_math_type == 3 || (is_single && arguments.cube_math_type == 0)) {
    FailInvalid("cubeMathType: expected 1 for FLOAT and not 3, got " + std::to_string(arguments.cube_math_type));
  }
}

// Most devices do not compare these sizes and read out of bounds.
AveragePool PoolOf(const AvgPool2dBackwardArguments& arguments, const WindowSizes& windows,
                   const Argument& grad_output) {
  Dims dims = arguments.self->view_dims;
  const size_t axis = dims.size() - 2;
  const auto pooled = [&](int64_t size, int64_t kernel, int64_t stride, int64_t padding) {
    const int64_t count = PooledSize(size, kernel, stride, padding, arguments.ceil_mode);
    return PooledAxis{size, count, kernel, stride, padding, arguments.count_include_pad};
  };
  const PooledAxis rows = pooled(dims[axis], windows.kernel.height, windows.stride.height, windows.padding.height);
  const PooledAxis columns = pooled(dims[axis + 1], windows.kernel.width, windows.stride.width, windows.padding.width);
  dims[axis] = rows.pooled;
  dims[axis + 1] = columns.pooled;
  if (rows.pooled == 0 || columns.pooled == 0 || grad_output.tensor.view_dims != dims) {
    FailShape(grad_output, "shape " + DimsText(dims) + ", one element for each window");
  }
  const int64_t planes = ElementCount(Dims(dims.begin(), dims.end() - 2));
  return {planes, kNotPooled, rows, columns, arguments.divisor_override};
}

// Whether only few windows cover each cell.
bool IsShort(const AveragePool& pool) {
  constexpr int64_t kFewWindows = 8;
  const auto few = [](const PooledAxis& axis) {
    return std::min(axis.kernel / axis.stride, axis.pooled) <= kFewWindows;
  };
  return few(pool.rows) && few(pool.columns);
}

}  // namespace

Plan PlanAvgPool2dBackward(const AvgPool2dBackwardArguments& arguments) {
  CheckProduct(kProducts);
  const Argument grad_output{"gradOutput", arguments.grad_output};
  const Argument self{"self", arguments.self};
  const IntArrayArgument kernel_size{"kernelSize", arguments.kernel_size};
  // Devices do not check this pointer, and crash.
  const IntArrayArgument stride{"stride", arguments.stride};
  const IntArrayArgument padding{"padding", arguments.padding};
  const Argument grad_input{"gradInput", arguments.grad_input};
  CheckTensors(grad_output, self, grad_input);
  const WindowSizes windows = CheckWindows(kernel_size, stride, padding);
  CheckPrecision(arguments);
  CheckSameShape(grad_input, self);

  if (grad_output.tensor.empty() || self.tensor.empty()) return {};
  Plan plan = PlanOf({grad_output}, {grad_input});
  const AveragePool pool = PoolOf(arguments, windows, grad_output);
  if (IsShort(pool)) plan.PromiseTimeOfBytes();
  plan.SetKernel<AveragePoolBackward>(pool, grad_output.tensor.data_type);
  return plan;
}

}  // namespace acl_host
