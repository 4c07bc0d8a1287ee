// Average pooling: its checks, in CANN's order and with CANN's codes, and its plans.
#include <algorithm>
#include <string>

#include "families/average_pool/computation.h"
#include "operator_plans.h"
#include "plan/checks.h"
#include "tensors/axes.h"

namespace acl_host {
namespace {

void CheckPooledTensors(const Argument& self, const Argument& out) {
  for (const Argument& argument : {self, out}) CheckDataType(argument, FloatTypes());
  CheckSameDataType(out, self);
}

void CheckFormats(const Argument& self, const Argument& out) {
  for (const Argument& argument : {self, out}) {
    const int64_t rank = argument.tensor.rank();
    if (rank == 3 || argument.tensor.format != ACL_FORMAT_NCHW) CheckFormat(argument, ACL_FORMAT_NCL);
  }
  for (const Argument& argument : {self, out}) {
    if (self.tensor.rank() == 4) CheckFormat(argument, ACL_FORMAT_NCHW);
  }
}

Windows CheckAveragedWindows(const AvgPool2dArguments& arguments, const Argument& self, const Argument& out) {
  const IntArrayArgument kernel_size{"kernelSize", arguments.kernel_size};
  const IntArrayArgument strides{"strides", arguments.strides};
  const IntArrayArgument paddings{"paddings", arguments.paddings};
  for (const Argument& argument : {self, out}) CheckNoNegativeDim(argument);
  CheckEachPositive(kernel_size);
  CheckEachPositive(strides);
  CheckEachAtLeast0(paddings);
  CheckRank(self, {3, 4});
  CheckSameRank(out, self);
  CheckNoEmptyDim(self, self.tensor.view_dims.size() - 3);
  CheckLength(kernel_size, {1, 2});
  CheckLength(paddings, {1, 2});
  CheckLength(strides, {0, 1, 2});
  const Pair kernel = ReadPair(kernel_size.values);
  const Pair pads = ReadPair(paddings.values);
  if (pads.height > kernel.height / 2 || pads.width > kernel.width / 2) {
    FailInvalid("paddings: expected at most half of kernelSize, " + DimsText(kernel_size.values) + ", got " +
                DimsText(paddings.values));
  }
  return {kernel, strides.values.empty() ? kernel : ReadPair(strides.values), pads};
}

AveragePool PoolOf(const AvgPool2dArguments& arguments, const Windows& windows, const Argument& out) {
  Dims dims = arguments.self->view_dims;
  const auto inner = dims.end() - 2;
  const auto pooled = [&](int64_t size, int64_t kernel, int64_t stride, int64_t padding) {
    const int64_t count = PooledSize(size, kernel, stride, padding, arguments.ceil_mode);
    return PooledAxis{size, count, kernel, stride, padding, arguments.count_include_pad};
  };
  const PooledAxis rows = pooled(inner[0], windows.kernel.height, windows.stride.height, windows.padding.height);
  const PooledAxis columns = pooled(inner[1], windows.kernel.width, windows.stride.width, windows.padding.width);
  inner[0] = rows.pooled;
  inner[1] = columns.pooled;
  if (rows.pooled == 0 || columns.pooled == 0) {
    FailInvalid("kernelSize: expected a window that fits self, of shape " + DimsText(arguments.self->view_dims));
  }
  CheckShape(out, "one element for each window", dims);
  return {ElementCount(Dims(dims.begin(), inner)), kNotPooled, rows, columns, arguments.divisor_override};
}

// Atlas A2 and A3 compute some windows in the cube unit, of FLOAT as it is or in FLOAT16.
bool IsConvolved(const AveragePool& pool, int64_t channels, bool ceil_mode) {
  constexpr int64_t kMost = 255, kMostSide = 20, kMostChannels = 65536, kLong = 2;
  const auto is_whole = [](const PooledAxis& axis) { return axis.kernel == axis.size && axis.padding == 0; };
  if (is_whole(pool.rows) && is_whole(pool.columns)) return true;
  const int64_t height = pool.rows.kernel, width = pool.columns.kernel;
  const bool is_long = pool.rows.size / pool.columns.size >= kLong || pool.columns.size / pool.rows.size >= kLong;
  const bool is_small =
      std::max(height, width) <= kMost && (height * width <= kMost || std::max(height, width) <= kMostSide);
  const bool has_divisor = -kMost <= pool.divisor && pool.divisor <= kMost;
  return !is_long && is_small && has_divisor && !ceil_mode && channels < kMostChannels;
}

void CheckPrecision(const AvgPool2dArguments& arguments, const AveragePool& pool, int64_t channels) {
  const bool is_a2_or_a3 = CurrentProduct() == Product::k910B || CurrentProduct() == Product::k910_93;
  if (!is_a2_or_a3 || arguments.self->data_type != ACL_FLOAT) return;
  if (arguments.cube_math_type == 0 || arguments.cube_math_type == 2) return;
  if (!IsConvolved(pool, channels, arguments.ceil_mode)) return;
  FailInvalid("cubeMathType: expected 0 or 2 for FLOAT, got " + std::to_string(arguments.cube_math_type));
}

Plan MakePlan(const AveragePool& pool, const Argument& self, const Argument& out) {
  Plan plan = PlanOf({self}, {out});
  constexpr int64_t kFewCells = 64;
  const int64_t most = std::min(MostWindowsOver(pool.rows), pool.rows.pooled);
  if (most <= kFewCells / std::min(MostWindowsOver(pool.columns), kFewCells)) plan.PromiseTimeOfBytes();
  plan.SetKernel<AveragePoolForward>(pool, self.tensor.data_type);
  return plan;
}

}  // namespace

Plan PlanAvgPool2d(const AvgPool2dArguments& arguments) {
  CheckProduct(kAllProducts);
  const Argument self{"self", arguments.self};
  for (const auto& [name, list] :
       {std::pair{"kernelSize", arguments.kernel_size}, std::pair{"strides", arguments.strides},
        std::pair{"paddings", arguments.paddings}}) {
    (void)IntArrayArgument{name, list};
  }
  const Argument out{"out", arguments.out};
  CheckPooledTensors(self, out);
  CheckFormats(self, out);
  const Windows windows = CheckAveragedWindows(arguments, self, out);
  const AveragePool pool = PoolOf(arguments, windows, out);
  CheckCubeMathType(arguments.cube_math_type, self.tensor.data_type == ACL_FLOAT);
  if (self.tensor.empty()) return {};
  CheckPrecision(arguments, pool, *(self.tensor.view_dims.end() - 3));
  return MakePlan(pool, self, out);
}

Plan PlanAdaptiveAvgPool2d(const AdaptiveAvgPool2dArguments& arguments) {
  CheckProduct(kAllProducts);
  const Argument self{"self", arguments.self};
  const IntArrayArgument output_size{"outputSize", arguments.output_size};
  const Argument out{"out", arguments.out};
  CheckRank(self, {3, 4});
  CheckSameRank(out, self);
  const Dims& dims = self.tensor.view_dims;
  CheckSameLeadingDims(out, self, self.tensor.rank() - 2);
  const bool is_950 = CurrentProduct() == Product::k950;
  if (is_950) CheckNoEmptyDim(self, dims.size() - 2);
  CheckPooledTensors(self, out);
  CheckSameFormat(out, self);
  CheckFormat(self, self.tensor.rank() == 3 ? ACL_FORMAT_NCL : ACL_FORMAT_NCHW);
  CheckLength(output_size, {2});
  is_950 ? CheckEachAtLeast0(output_size) : CheckEachPositive(output_size);
  for (size_t axis = 0; axis < 2; ++axis) {
    CheckDim(out, dims.size() - 2 + axis, "that of outputSize", output_size.values[axis]);
  }
  CheckNoNegativeDim(self);
  if (self.tensor.empty() || out.tensor.empty()) return {};
  const auto axis = [&](size_t index) { return PooledAxis{dims[dims.size() - 2 + index], output_size.values[index]}; };
  const AveragePool pool{ElementCount(Dims(dims.begin(), dims.end() - 2)), kNotPooled, axis(0), axis(1)};
  return MakePlan(pool, self, out);
}

}  // namespace acl_host
