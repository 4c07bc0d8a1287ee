// aclnnRoiAlignV2 and its gradient: their checks, in CANN's order, and their plans.
//
// For the gradient, boxes are ordered by image, and their weights are computed once for all channels. Then each block
// of an image's planes adds the boxes of its image: each element of gradOutput to the cells that its bin's samples
// interpolate, by their weights.

#include <algorithm>
#include <limits>

#include "blocks.h"
#include "computation.h"
#include "device/runtime.h"
#include "forward.h"
#include "operator_plans.h"
#include "plan/checks.h"
#include "sampling.h"

namespace acl_host {
namespace {

constexpr int64_t kCoordinates = 5;

// Samples along each axis of a bin up to which the run time is proportional to the gradients' bytes.
constexpr int64_t kFewSamples = 4;

void CheckSampling(int64_t sampling_ratio, float spatial_scale) {
  if (sampling_ratio < 0) {
    FailInvalid("samplingRatio: expected 0 or more, got " + std::to_string(sampling_ratio));
  }
  // Negated, so that a NaN fails.
  if (!(spatial_scale > std::numeric_limits<float>::min())) {
    FailInvalid("spatialScale: expected more than 1.17549e-38, got " + std::to_string(spatial_scale));
  }

  // A device counts samples in 32 bits and does not check this.
  if (sampling_ratio > std::numeric_limits<int32_t>::max()) {
    FailInvalid("samplingRatio: expected less than 2147483648, got " + std::to_string(sampling_ratio));
  }
}

void Check(const RoiAlignV2BackwardArguments& arguments) {
  CheckProduct(kNot310P);
  const Argument grad_output{"gradOutput", arguments.grad_output};
  const Argument boxes{"boxes", arguments.boxes};
  const IntArrayArgument input_shape{"inputShape", arguments.input_shape};
  const Argument grad_input{"gradInput", arguments.grad_input};

  CheckDataType(grad_output, {ACL_FLOAT});
  CheckSameDataType(boxes, grad_output);
  CheckSameDataType(grad_input, grad_output);
  CheckFormat(grad_output, ACL_FORMAT_NCHW);
  CheckFormat(boxes, ACL_FORMAT_ND);
  CheckFormat(grad_input, ACL_FORMAT_NCHW);

  CheckRank(grad_output, {4});
  CheckRank(boxes, {2});
  CheckDim(boxes, 1, "the coordinates of a box", kCoordinates);
  CheckLength(input_shape, {4});
  CheckDim(boxes, 0, "gradOutput's dim 0", grad_output.tensor.view_dims[0]);
  CheckDim(grad_output, 2, "pooledHeight", arguments.pooled_height);
  CheckDim(grad_output, 3, "pooledWidth", arguments.pooled_width);
  CheckRank(grad_input, {4});
  CheckDim(grad_input, 1, "gradOutput's dim 1", grad_output.tensor.view_dims[1]);
  CheckShape(grad_input, "inputShape", input_shape.values);

  CheckSampling(arguments.sampling_ratio, arguments.spatial_scale);
  CheckNoNegativeDim(grad_output);
  CheckNoNegativeDim(grad_input);
  for (const Argument& argument : {grad_output, boxes, grad_input}) CheckAddressable(argument);
}

// Adds room to start at an aligned address, because the workspace itself may not be aligned.
void AddArray(Plan& plan, int64_t count, uint64_t element_bytes) {
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<uint64_t>(count), element_bytes, &bytes) ||
      __builtin_add_overflow(bytes, kRoiSumAlignment, &bytes)) {
    FailInvalid("boxes: there is no workspace for " + std::to_string(count));
  }
  plan.AddScratch(bytes);
}

void Check(const RoiAlignV2Arguments& arguments) {
  CheckProduct({Product::k910A, Product::k910B, Product::k910_93, Product::k310P});
  const Argument self{"self", arguments.self};
  const Argument boxes{"boxes", arguments.boxes};
  const Argument out{"out", arguments.out};
  CheckDataType(self, {ACL_FLOAT, ACL_FLOAT16});
  CheckSameDataType(boxes, self);
  CheckSameDataType(out, self);
  CheckFormat(self, ACL_FORMAT_NCHW);
  CheckFormat(boxes, ACL_FORMAT_ND);
  CheckFormat(out, ACL_FORMAT_NCHW);

  CheckRank(self, {4});
  CheckRank(boxes, {2});
  CheckRank(out, {4});
  const Dims& images = self.tensor.view_dims;
  if (images[0] == 0 || images[2] == 0 || images[3] == 0) FailShape(self, "images of at least one cell");
  CheckDim(boxes, 1, "the coordinates of a box", kCoordinates);
  CheckDim(out, 0, "boxes' dim 0", boxes.tensor.view_dims[0]);
  CheckDim(out, 1, "self's dim 1", images[1]);
  CheckDim(out, 2, "pooledHeight", arguments.pooled_height);
  CheckDim(out, 3, "pooledWidth", arguments.pooled_width);
  CheckSampling(arguments.sampling_ratio, arguments.spatial_scale);
  for (const Argument& argument : {self, boxes, out}) CheckNoNegativeDim(argument);
}

// With a ratio of 0 the number of samples grows with the box.
bool HasFewSamples(int64_t sampling_ratio) { return 0 < sampling_ratio && sampling_ratio <= kFewSamples; }

}  // namespace

Plan PlanRoiAlignV2(const RoiAlignV2Arguments& arguments) {
  Check(arguments);
  if (arguments.out->empty()) return {};
  Plan plan = PlanOf({{"self", arguments.self}, {"boxes", arguments.boxes}}, {{"out", arguments.out}});
  const Dims& shape = arguments.self->view_dims;
  const RoiAlign roi{shape[0],
                     shape[1],
                     shape[2],
                     shape[3],
                     arguments.boxes->view_dims[0],
                     arguments.pooled_height,
                     arguments.pooled_width,
                     arguments.spatial_scale,
                     static_cast<int32_t>(arguments.sampling_ratio),
                     arguments.aligned};
  if (HasFewSamples(arguments.sampling_ratio)) plan.PromiseTimeOfBytes();
  plan.SetKernel<RoiAlignV2>(roi, arguments.self->data_type);
  return plan;
}

Plan PlanRoiAlignV2Backward(const RoiAlignV2BackwardArguments& arguments) {
  Check(arguments);
  const int64_t elements = ElementCount(arguments.grad_input->view_dims);
  (void)ElementCount(arguments.grad_output->view_dims);
  Plan plan;
  if (elements == 0) return plan;

  // The one operator that writes its output for an empty input: without boxes the gradient is zeros.
  const int64_t boxes = arguments.grad_output->empty() ? 0 : arguments.boxes->view_dims[0];
  const Dims& shape = arguments.input_shape->values;
  const RoiAlign roi{shape[0],
                     shape[1],
                     shape[2],
                     shape[3],
                     boxes,
                     arguments.pooled_height,
                     arguments.pooled_width,
                     arguments.spatial_scale,
                     static_cast<int32_t>(arguments.sampling_ratio),
                     arguments.aligned};
  plan.AddInput(*arguments.grad_output);
  plan.AddInput(*arguments.boxes);
  plan.AddOutput(*arguments.grad_input);
  if (boxes > INT32_MAX) FailInvalid("boxes: expected less than 2^31, got " + std::to_string(boxes));
  const int64_t threads = Runtime::Current()->config().threads;
  const RoiBlocks blocks = DivideIntoBlocks(roi, threads);
  const int64_t slots = std::min(threads, MostThreads(roi, blocks));
  AddArray(plan, roi.boxes, sizeof(int32_t));
  AddArray(plan, slots, RoiSumBytes(blocks));
  if (HasFewSamples(arguments.sampling_ratio)) plan.PromiseTimeOfBytes();
  plan.SetKernel<RoiAlignV2Backward>(roi, blocks, slots);
  return plan;
}

}  // namespace acl_host
