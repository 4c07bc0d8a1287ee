// aclnnGridSampler2DBackward: its checks and its plan.
#include <algorithm>

#include "computation.h"
#include "device/runtime.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

constexpr int64_t kNearest = 1;
constexpr int64_t kReflection = 2;

// Channels for which the places of the points are computed once: more if their planes are small enough for a cache.
constexpr int64_t kFewChannels = 4;
constexpr int64_t kMostChannels = 16;
constexpr int64_t kCellsInCache = 65536;

// The memory of sums: so many bytes, and an eighth of the tensors' bytes.
constexpr int64_t kFreeBytes = int64_t{2} << 20;

void CheckMode(const char* name, int64_t mode, int64_t highest) {
  if (0 <= mode && mode <= highest) return;
  FailInvalid(std::string(name) + ": expected 0 to " + std::to_string(highest) + ", got " + std::to_string(mode));
}

void CheckShapes(const Argument& grad_output, const Argument& input, const Argument& grid) {
  CheckRank(input, {4});
  CheckRank(grid, {4});
  CheckRank(grad_output, {4});
  const Dims& shape = input.tensor.view_dims;
  CheckDim(grid, 0, "input's dim 0", shape[0]);
  CheckDim(grad_output, 0, "input's dim 0", shape[0]);
  CheckDim(grad_output, 1, "input's dim 1", shape[1]);
  if (shape[2] == 0 || shape[3] == 0) {
    FailInvalid("input: expected a height and a width above 0, got shape " + DimsText(shape));
  }
  CheckDim(grid, 1, "gradOutput's dim 2", grad_output.tensor.view_dims[2]);
  CheckDim(grid, 2, "gradOutput's dim 3", grad_output.tensor.view_dims[3]);
  CheckDim(grid, 3, "x and y", 2);
}

void Check(const GridSampler2DBackwardArguments& arguments) {
  const Argument grad_output{"gradOutput", arguments.grad_output};
  const Argument input{"input", arguments.input};
  const Argument grid{"grid", arguments.grid};
  const Argument input_grad{"inputGrad", arguments.input_grad};
  const Argument grid_grad{"gridGrad", arguments.grid_grad};
  for (const Argument& argument : {grad_output, grid, input_grad, grid_grad}) CheckSameDataType(argument, input);
  std::vector<aclDataType> types = FloatTypes(CurrentProduct());
  types.push_back(ACL_DOUBLE);
  CheckDataType(input, types);

  // CANN 9.1 has mode 2 as well, which nothing tells from a release that lacks it.
  CheckMode("interpolationMode", arguments.interpolation_mode, kNearest);
  CheckMode("paddingMode", arguments.padding_mode, kReflection);
  CheckShapes(grad_output, input, grid);
  CheckSameShape(input_grad, input);
  CheckSameShape(grid_grad, grid);
  if (const size_t length = arguments.output_mask->values.size(); length != 2) {
    FailInvalid("outputMask: expected 2 values, got " + std::to_string(length));
  }
  for (const Argument& argument : {grad_output, input, grid}) CheckNoNegativeDim(argument);
  for (const Argument& argument : {grad_output, input, grid, input_grad, grid_grad}) CheckAddressable(argument);
}

// Divides the work among threads. Sums that need memory take little beside the tensors; a plane that is too large for
// that is divided into bands, for each of which all points are looked at.
GridSampling Divide(GridSampling sampling, bool sums_need_memory) {
  const int64_t threads = Runtime::Current()->config().threads;
  const int64_t groups = (threads - 1) / sampling.images + 1;
  const int64_t most = std::clamp(kCellsInCache / sampling.plane(), kFewChannels, kMostChannels);
  sampling.group = std::clamp<int64_t>(sampling.channels / groups, 1, most);
  sampling.band = sampling.plane();
  if (sums_need_memory) {
    const int64_t planes = sampling.images * sampling.channels;
    const int64_t tensor_bytes_part = planes * sampling.plane() / 2 + planes * sampling.points / 4;
    const int64_t cells = (kFreeBytes + tensor_bytes_part) / int64_t{sizeof(float)} / threads;
    sampling.group = std::clamp<int64_t>(cells / sampling.plane(), 1, sampling.group);
    sampling.band = std::clamp<int64_t>(cells, 1, sampling.plane());
  }
  sampling.slots = std::min(threads, sampling.images * sampling.groups() * sampling.bands());
  return sampling;
}

}  // namespace

Plan PlanGridSampler2DBackward(const GridSampler2DBackwardArguments& arguments) {
  CheckProduct(CurrentProduct(), {"910A", "910B", "910_93", "950"});
  Plan plan;
  if (arguments.output_mask == nullptr) return plan;
  Check(arguments);
  const Dims& shape = arguments.input->view_dims;
  const Dims& points = arguments.grid->view_dims;
  const std::vector<bool>& wanted = arguments.output_mask->values;
  if (arguments.input->empty() || arguments.grid->empty() || !(wanted[0] || wanted[1])) return plan;
  for (const Dims& dims : {shape, points, arguments.grad_output->view_dims}) (void)ElementCount(dims);

  const aclDataType type = arguments.input->data_type;
  const bool sums_need_memory = wanted[0] && aclDataTypeSize(type) < sizeof(float);
  const GridSampling sampling = Divide(
      {shape[0], shape[1], shape[2], shape[3], points[1] * points[2], arguments.interpolation_mode == kNearest,
       static_cast<SamplingPadding>(arguments.padding_mode), arguments.align_corners, wanted[0], wanted[1], 0, 0, 0},
      sums_need_memory);
  for (const aclTensor* tensor : {arguments.grad_output, arguments.input, arguments.grid}) plan.AddInput(*tensor);
  if (wanted[0]) plan.AddOutput(*arguments.input_grad);
  if (wanted[1]) plan.AddOutput(*arguments.grid_grad);
  if (sums_need_memory) {
    plan.AddScratch(static_cast<uint64_t>(sampling.slots * sampling.group * sampling.band) * sizeof(float));
  }
  plan.PromiseTimeOfBytes();
  plan.SetCompute([run = AtVectorLevel<GridSampler2dBackward>(), sampling, type](const Launch& launch) {
    run(sampling, type, launch);
  });
  return plan;
}

}  // namespace acl_host
