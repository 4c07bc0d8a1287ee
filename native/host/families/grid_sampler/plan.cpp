// Grid sampling and its gradients: their checks, which differ a little, and their plans.
#include <algorithm>
#include <string>
#include <vector>

#include "device/runtime.h"
#include "families/grid_sampler/computation.h"
#include "operator_plans.h"
#include "plan/checks.h"
#include "tensors/sums.h"

namespace acl_host {
namespace {

constexpr int64_t kNearest = 1;
constexpr int64_t kReflection = 2;

// Channels for which the places of the points are computed once: more if these are small enough for a cache.
constexpr int64_t kFewChannels = 4;
constexpr int64_t kMostChannels = 16;
constexpr int64_t kCellsInCache = 65536;

// The memory of sums: so many bytes, and an eighth of the tensors' bytes.
constexpr int64_t kFreeBytes = int64_t{2} << 20;

void CheckMode(const char* name, int64_t mode, int64_t highest) {
  if (0 <= mode && mode <= highest) return;
  FailInvalid(std::string(name) + ": expected 0 to " + std::to_string(highest) + ", got " + std::to_string(mode));
}

// The operators have the same arguments.
using GridArguments = GridSampler2DBackwardArguments;

struct Tensors {
  explicit Tensors(const GridArguments& given)
      : grad_output("gradOutput", given.grad_output),
        input("input", given.input),
        grid("grid", given.grid),
        input_grad("inputGrad", given.input_grad),
        grid_grad("gridGrad", given.grid_grad),
        mask(*given.output_mask) {}

  // What is sampled for nothing is not computed.
  [[nodiscard]] bool needs_work() const {
    return !input.tensor.empty() && !grid.tensor.empty() && (mask.values[0] || mask.values[1]);
  }

  Argument grad_output;
  Argument input;
  Argument grid;
  Argument input_grad;
  Argument grid_grad;
  const aclBoolArray& mask;
};

void CheckTypes(const Tensors& tensors, const std::vector<aclDataType>& types) {
  for (const Argument& each : {tensors.grad_output, tensors.grid, tensors.input_grad, tensors.grid_grad}) {
    CheckSameDataType(each, tensors.input);
  }
  CheckDataType(tensors.input, types);
}

void CheckShapes(const Tensors& tensors, int64_t axes) {
  const auto& [grad_output, input, grid, input_grad, grid_grad, mask] = tensors;
  CheckRank(input, {axes + 2});
  CheckRank(grid, {axes + 2});
  CheckRank(grad_output, {axes + 2});
  const Dims& shape = input.tensor.view_dims;
  CheckDim(grid, 0, "input's dim 0", shape[0]);
  CheckDim(grad_output, 0, "input's dim 0", shape[0]);
  CheckDim(grad_output, 1, "input's dim 1", shape[1]);
  if (axes == 2 && (shape[2] == 0 || shape[3] == 0)) {
    FailShape(input, "a height and a width above 0");
  }
  for (int64_t axis = 1; axis <= axes; ++axis) {
    const auto at = static_cast<size_t>(axis);
    const std::string what = "gradOutput's dim " + std::to_string(axis + 1);
    CheckDim(grid, at, what.c_str(), grad_output.tensor.view_dims[at + 1]);
  }
  CheckDim(grid, static_cast<size_t>(axes + 1), axes == 2 ? "x and y" : "x, y and z", axes);
  CheckSameShape(input_grad, input);
  CheckSameShape(grid_grad, grid);
  (void)OutputMask(&mask, 2);
  for (const Argument& each : {grad_output, input, grid}) CheckNoNegativeDim(each);
  for (const Argument& each : {grad_output, input, grid, input_grad, grid_grad}) CheckAddressable(each);
}

// Divides the work among threads. Sums that need memory take little beside the tensors; a channel that is too large for
// that is divided into bands, for each of which all points are looked at.
GridSampling Divide(GridSampling sampling, aclDataType type) {
  const int64_t threads = Runtime::Current()->config().threads;
  const int64_t groups = (threads - 1) / sampling.images + 1;
  const int64_t most = std::clamp(kCellsInCache / sampling.cells(), kFewChannels, kMostChannels);
  sampling.group = std::clamp<int64_t>(sampling.channels / groups, 1, most);
  sampling.band = sampling.cells();
  const int64_t channels = sampling.images * sampling.channels;
  const int64_t most_bytes = kFreeBytes + channels * sampling.cells() / 2 + channels * sampling.points / 4;
  const bool sums_in_place = aclDataTypeSize(type) >= sizeof(float);
  if (sampling.wants_input_grad && !sums_in_place) {
    const int64_t cells = most_bytes / int64_t{sizeof(float)} / threads;
    sampling.group = std::clamp<int64_t>(cells / sampling.cells(), 1, sampling.group);
    sampling.band = std::clamp<int64_t>(cells, 1, sampling.cells());
  }
  sampling.slots = std::min(threads, sampling.images * sampling.groups() * sampling.bands());
  const bool may_be_long = type != ACL_DOUBLE && sampling.points > kMostFloatAdditions;
  if (sampling.wants_input_grad && (may_be_long || !sums_in_place)) {
    const auto sum_bytes = static_cast<int64_t>(sums_in_place ? sizeof(double) : sizeof(float));
    const int64_t bytes = std::min(sampling.group * sampling.band * sum_bytes, most_bytes / sampling.slots);
    sampling.slot_bytes = std::max<int64_t>(bytes, sizeof(double));
  }
  return sampling;
}

// Arguments are those of a gradient or of the function itself.
template <typename AnyArguments>
GridSampling SamplingOf(const AnyArguments& given) {
  const Dims& shape = given.input->view_dims;
  const Dims& points = given.grid->view_dims;
  GridSampling sampling{};
  sampling.axes = static_cast<int>(shape.size()) - 2;
  sampling.images = shape[0];
  sampling.channels = shape[1];
  sampling.sizes = {1, 1, 1};
  std::copy(shape.rbegin(), shape.rend() - 2, sampling.sizes.begin());
  sampling.points = ElementCount(Dims(points.begin() + 1, points.end() - 1));
  sampling.nearest = given.interpolation_mode == kNearest;
  sampling.padding = static_cast<SamplingPadding>(given.padding_mode);
  sampling.align_corners = given.align_corners;
  return sampling;
}

Plan MakePlan(const GridArguments& given, const Tensors& tensors) {
  Plan plan;
  if (!tensors.needs_work()) return plan;
  const aclTensor& input = tensors.input.tensor;
  GridSampling sampling = SamplingOf(given);
  sampling.wants_input_grad = tensors.mask.values[0];
  sampling.wants_grid_grad = tensors.mask.values[1];
  sampling = Divide(sampling, input.data_type);
  for (const Argument& each : {tensors.grad_output, tensors.input, tensors.grid}) plan.AddInput(each.tensor);
  if (sampling.wants_input_grad) plan.AddOutput(tensors.input_grad.tensor);
  if (sampling.wants_grid_grad) plan.AddOutput(tensors.grid_grad.tensor);
  if (sampling.slot_bytes > 0) plan.AddScratch(static_cast<uint64_t>(sampling.slots * sampling.slot_bytes));
  plan.PromiseTimeOfBytes();
  plan.SetKernel<GridSamplerBackward>(sampling, input.data_type);
  return plan;
}

void CheckShapes(const Argument& input, const Argument& grid, const Argument& out) {
  for (const Argument& each : {input, grid, out}) CheckRank(each, {4});
  const Dims& shape = input.tensor.view_dims;
  CheckDim(grid, 0, "input's dim 0", shape[0]);
  CheckDim(out, 0, "input's dim 0", shape[0]);
  CheckDim(out, 1, "input's dim 1", shape[1]);
  for (size_t axis = 1; axis < 3; ++axis) {
    const std::string what = "out's dim " + std::to_string(axis + 1);
    CheckDim(grid, axis, what.c_str(), out.tensor.view_dims[axis + 1]);
  }
  if (shape[2] == 0 || shape[3] == 0) FailShape(input, "a height and a width above 0");
  CheckDim(grid, 3, "x and y", 2);
  for (const Argument& each : {input, grid, out}) CheckNoNegativeDim(each);
  // Only a device's kernel asks for this, when it is planned.
  if (shape[2] > INT32_MAX / shape[3]) FailShape(input, "planes of less than 2^31 cells", ACLNN_ERR_INNER_NULLPTR);
}

}  // namespace

Plan PlanGridSampler2D(const GridSampler2DArguments& given) {
  CheckProduct(kAllProducts);
  const Argument input{"input", given.input};
  const Argument grid{"grid", given.grid};
  const Argument out{"out", given.out};
  CheckSameDataType(grid, input);
  CheckSameDataType(out, input);
  CheckDataType(input, FloatTypes({ACL_DOUBLE}));
  // CANN also has mode 2, bicubic, which this library does not compute.
  CheckMode("interpolationMode", given.interpolation_mode, kNearest);
  CheckMode("paddingMode", given.padding_mode, kReflection);
  CheckShapes(input, grid, out);
  if (input.tensor.empty() || grid.tensor.empty()) return {};
  Plan plan = PlanOf({input, grid}, {out});
  plan.PromiseTimeOfBytes();
  plan.SetKernel<GridSampler>(Divide(SamplingOf(given), input.tensor.data_type), input.tensor.data_type);
  return plan;
}

Plan PlanGridSampler2DBackward(const GridArguments& given) {
  CheckProduct(kNot310P);
  if (given.output_mask == nullptr) return {};
  const Tensors tensors(given);
  CheckTypes(tensors, FloatTypes({ACL_DOUBLE}));
  // CANN 9.1 has mode 2 as well, which nothing tells from a release that lacks it.
  CheckMode("interpolationMode", given.interpolation_mode, kNearest);
  CheckMode("paddingMode", given.padding_mode, kReflection);
  CheckShapes(tensors, 2);
  return MakePlan(given, tensors);
}

// Every product takes BF16.
Plan PlanGridSampler3DBackward(const GridArguments& given) {
  CheckProduct(kNot310P);
  if (given.output_mask == nullptr) return {};
  const Tensors tensors(given);
  CheckTypes(tensors, {ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_DOUBLE});
  CheckMode("paddingMode", given.padding_mode, kReflection);
  CheckMode("interpolationMode", given.interpolation_mode, kNearest);
  // Devices also take channels in the last dim, which this library does not compute.
  if (tensors.input.tensor.format == ACL_FORMAT_NDHWC) CheckFormat(tensors.input, ACL_FORMAT_NCDHW);
  CheckShapes(tensors, 3);
  return MakePlan(given, tensors);
}

}  // namespace acl_host
