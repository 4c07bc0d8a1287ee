// The gradients of average pooling: their checks, in CANN's order and with CANN's codes, and their plans.
#include <algorithm>
#include <string>

#include "families/average_pool/computation.h"
#include "operator_plans.h"
#include "plan/checks.h"
#include "tensors/axes.h"

namespace acl_host {
namespace {

void CheckShapesOf3d(Product product, const Argument& grad_output, const Argument& self, const Argument& out) {
  CheckRank(self, {4, 5});
  CheckSameRank(grad_output, self);
  CheckSameRank(out, self);
  const Dims& dims = self.tensor.view_dims;
  // The 950 checks neither the first dim of self nor that of out.
  CheckNoEmptyDim(self, product == Product::k950 ? 1 : 0);
  CheckSameShape(out, self);
  CheckSameLeadingDims(grad_output, self, self.tensor.rank() - 3);
  CheckNoEmptyDim(grad_output, dims.size() - 3);
  CheckNoNegativeDim(self);
}

bool HasOneWindow(const Argument& grad_output) {
  const Dims& pooled = grad_output.tensor.view_dims;
  return std::all_of(pooled.end() - 3, pooled.end(), [](int64_t dim) { return dim == 1; });
}

void CheckTypesOf3d(Product product, const Argument& grad_output, const Argument& self, const Argument& out) {
  const bool takes_double = !HasBf16(product) || HasOneWindow(grad_output);
  CheckDataType(grad_output, takes_double ? FloatTypes({ACL_DOUBLE}) : FloatTypes());
  CheckSameDataType(self, grad_output);
  CheckSameDataType(out, grad_output);
}

// Windows that divide the last axes of self among those of gradOutput.
AveragePool AdaptivePool(const Argument& grad_output, const Argument& self, size_t axes) {
  const Dims& in = self.tensor.view_dims;
  const Dims& pooled = grad_output.tensor.view_dims;
  const size_t first = in.size() - axes;
  const auto axis = [&](size_t index) { return PooledAxis{in[first + index], pooled[first + index]}; };
  return {ElementCount(Dims(in.begin(), in.end() - static_cast<std::ptrdiff_t>(axes))),
          axes == 3 ? axis(0) : kNotPooled, axis(axes - 2), axis(axes - 1)};
}

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

// Products without BF16 compute a convolution in FLOAT16, and refuse FLOAT unless cubeMathType allows that.
void CheckPrecision(const AvgPool2dBackwardArguments& arguments) {
  CheckCubeMathType(arguments.cube_math_type);
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
AveragePool PoolOf(const AvgPool2dBackwardArguments& arguments, const Windows& windows, const Argument& grad_output) {
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

Plan PlanAdaptiveAvgPool2dBackward(const AdaptiveAvgPool2dBackwardArguments& arguments) {
  CheckProduct(kAllProducts);
  const Argument grad_output{"gradOutput", arguments.grad_output};
  const Argument self{"self", arguments.self};
  const Argument out{"out", arguments.out};

  CheckSameRank(grad_output, self);
  CheckNoNegativeDim(grad_output);
  CheckNoNegativeDim(self);

  CheckRank(out, {3, 4});
  CheckSameRank(out, self);
  const int64_t leading = self.tensor.rank() - 2;
  CheckSameLeadingDims(out, self, leading);
  CheckSameLeadingDims(grad_output, self, leading);

  CheckDataType(grad_output, FloatTypes());
  CheckDataType(self, FloatTypes());
  CheckSameDataType(grad_output, self);

  CheckSameFormat(grad_output, self);
  CheckNotPrivateFormat(grad_output);

  // A device does not check these and writes out of bounds; here a difference is an error.
  CheckSameShape(out, self);
  CheckSameDataType(out, self);
  Plan plan = PlanOf({grad_output}, {out});
  if (grad_output.tensor.empty() || self.tensor.empty()) return {};
  plan.PromiseTimeOfBytes();
  plan.SetKernel<AveragePoolBackward>(AdaptivePool(grad_output, self, 2), self.tensor.data_type);
  return plan;
}

Plan PlanAdaptiveAvgPool3dBackward(const AdaptiveAvgPool3dBackwardArguments& arguments) {
  const Product product = CurrentProduct();
  CheckProduct(kAllProducts);
  const Argument grad_output{"gradOutput", arguments.grad_output};
  const Argument self{"self", arguments.self};
  const Argument out{"out", arguments.out};
  CheckShapesOf3d(product, grad_output, self, out);
  CheckTypesOf3d(product, grad_output, self, out);
  CheckSameFormat(grad_output, self);
  CheckSameFormat(out, self);
  CheckNotPrivateFormat(self);
  if (!HasOneWindow(grad_output)) {
    const char* const expected = "one window for each plane";
    if (product == Product::k910A) FailShape(grad_output, expected);
    if (product == Product::k310P) FailShape(grad_output, expected, ACLNN_ERR_INNER_FIND_KERNEL_ERROR);
  }
  if (self.tensor.empty()) return {};

  Plan plan = PlanOf({grad_output}, {out});
  plan.PromiseTimeOfBytes();
  plan.SetKernel<AveragePoolBackward>(AdaptivePool(grad_output, self, 3), self.tensor.data_type);
  return plan;
}

Plan PlanAvgPool2dBackward(const AvgPool2dBackwardArguments& arguments) {
  CheckProduct(kAllProducts);
  const Argument grad_output{"gradOutput", arguments.grad_output};
  const Argument self{"self", arguments.self};
  const IntArrayArgument kernel_size{"kernelSize", arguments.kernel_size};
  // Devices do not check this pointer, and crash.
  const IntArrayArgument stride{"stride", arguments.stride};
  const IntArrayArgument padding{"padding", arguments.padding};
  const Argument grad_input{"gradInput", arguments.grad_input};
  CheckTensors(grad_output, self, grad_input);
  const Windows windows = CheckWindows(kernel_size, stride, padding);
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
