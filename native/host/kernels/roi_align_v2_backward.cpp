// aclnnRoiAlignV2Backward: each element of gradOutput is spread over the cells that its bin's samples interpolate.
//
// A plane of the gradient is made by one thread: it takes the boxes in order, so the result does not depend on the
// number of threads. Per box and row of bins, the bins are first spread along the columns, and then along the rows.
#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "aclnnop/aclnn_roi_align_v2_backward.h"
#include "checks.h"
#include "elements.h"
#include "executor.h"
#include "int_arrays.h"
#include "roi_sampling.h"

namespace acl_host {
namespace {

constexpr int64_t kElementsPerPiece = 32768;
constexpr int64_t kBoxesPerPiece = 256;
constexpr int64_t kCoordinates = 5;

// Beyond this a device would run into its time limit, and a processor for minutes.
constexpr int64_t kMostSamples = int64_t{1} << 31;

struct Buffers {
  const std::byte* grad_output;
  const std::byte* boxes;  // RoiBox
  std::byte* grad_input;
};

// Adds one box to planes [begin, end) of its image.
class BoxSpreader {
 public:
  BoxSpreader(const RoiAlign& roi, const Buffers& buffers) : roi_(roi), buffers_(buffers) {
    row_.resize(static_cast<size_t>(roi.width));
  }

  void Add(int64_t index, const RoiBox& box, int64_t first_channel, int64_t last_channel) {
    rows_.Assign(box.rows, roi_.pooled_height, roi_.height);
    columns_.Assign(box.columns, roi_.pooled_width, roi_.width);
    for (int64_t channel = first_channel; channel < last_channel; ++channel) {
      const int64_t grad_plane = index * roi_.channels + channel;
      const int64_t plane = box.image * roi_.channels + channel;
      for (int64_t bin_row = 0; bin_row < roi_.pooled_height; ++bin_row) {
        if (rows_.OfBin(bin_row).empty()) continue;
        SpreadColumns((grad_plane * roi_.pooled_height + bin_row) * roi_.pooled_width, box.divisor);
        SpreadRow(rows_.OfBin(bin_row), plane * roi_.height);
      }
    }
  }

 private:
  void SpreadColumns(int64_t first_element, float divisor) {
    float* const row = row_.data();
    if (columns_.cells_begin() < columns_.cells_end()) {
      std::fill(row + columns_.cells_begin(), row + columns_.cells_end(), 0.0F);
    }
    for (int64_t bin = 0; bin < roi_.pooled_width; ++bin) {
      const float share = LoadElement<float>(buffers_.grad_output, first_element + bin) / divisor;
      for (const CellWeight& column : columns_.OfBin(bin))
        row[column.cell] += share * static_cast<float>(column.weight);
    }
  }

  void SpreadRow(const std::vector<CellWeight>& rows, int64_t first_row) {
    const float* const row = row_.data();
    for (const CellWeight& target : rows) {
      const auto weight = static_cast<float>(target.weight);
      const auto offset = static_cast<size_t>((first_row + target.cell) * roi_.width) * sizeof(float);
      std::byte* const out = buffers_.grad_input + offset;
      for (int64_t column = columns_.cells_begin(); column < columns_.cells_end(); ++column) {
        StoreElement(out, column, LoadElement<float>(out, column) + weight * row[column]);
      }
    }
  }

  const RoiAlign& roi_;
  const Buffers& buffers_;
  RoiWeights rows_;
  RoiWeights columns_;
  std::vector<float> row_;
};

// Planes [begin, end), counted through all images.
void ComputePlanes(const RoiAlign& roi, const Buffers& buffers, int64_t begin, int64_t end) {
  const size_t plane_bytes = static_cast<size_t>(roi.height * roi.width) * sizeof(float);
  std::memset(buffers.grad_input + static_cast<size_t>(begin) * plane_bytes, 0,
              static_cast<size_t>(end - begin) * plane_bytes);
  BoxSpreader spreader(roi, buffers);
  for (int64_t index = 0; index < roi.boxes; ++index) {
    const auto box = LoadElement<RoiBox>(buffers.boxes, index);
    if (box.image < 0) continue;
    const int64_t image_begin = box.image * roi.channels;
    const int64_t first = std::max(begin - image_begin, int64_t{0});
    const int64_t last = std::min(end - image_begin, roi.channels);
    if (first < last) spreader.Add(index, box, first, last);
  }
}

void CheckWork(const RoiAlign& roi, const std::byte* boxes) {
  int64_t samples = 0;
  for (int64_t index = 0; index < roi.boxes; ++index) {
    samples += LoadElement<RoiBox>(boxes, index).samples_to_visit;
    if (samples > kMostSamples) {
      throw Error(ACL_ERROR_RT_AICORE_TIMEOUT, "aclnnRoiAlignV2Backward: the boxes up to number " +
                                                   std::to_string(index) + " have more than " +
                                                   std::to_string(kMostSamples) + " samples along their axes");
    }
  }
}

void Compute(const RoiAlign& roi, const Launch& launch) {
  std::byte* const boxes = launch.scratch[0];
  launch.pool.ParallelFor(roi.boxes, kBoxesPerPiece, [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      std::array<float, kCoordinates> coordinates;
      std::memcpy(coordinates.data(), launch.inputs[1] + static_cast<size_t>(index) * sizeof(coordinates),
                  sizeof(coordinates));
      StoreElement(boxes, index, MakeRoiBox(roi, coordinates));
    }
  });
  CheckWork(roi, boxes);
  const Buffers buffers{launch.inputs[0], boxes, launch.outputs[0]};
  launch.pool.ParallelFor(roi.images * roi.channels, kElementsPerPiece / (roi.height * roi.width) + 1,
                          [&](int64_t begin, int64_t end) { ComputePlanes(roi, buffers, begin, end); });
}

struct Arguments {
  const aclTensor* grad_output;
  const aclTensor* boxes;
  const aclIntArray* input_shape;
  int64_t pooled_height;
  int64_t pooled_width;
  float spatial_scale;
  int64_t sampling_ratio;
  bool aligned;
  const aclTensor* grad_input;
};

void Check(const Arguments& arguments) {
  CheckProduct(CurrentProduct(), {"910A", "910B", "910_93", "950"});
  CheckNotNull("gradOutput", arguments.grad_output);
  CheckNotNull("boxes", arguments.boxes);
  CheckNotNull("inputShape", arguments.input_shape);
  CheckNotNull("gradInput", arguments.grad_input);
  const Argument grad_output{"gradOutput", *arguments.grad_output};
  const Argument boxes{"boxes", *arguments.boxes};
  const Argument grad_input{"gradInput", *arguments.grad_input};
  const IntArrayArgument input_shape{"inputShape", arguments.input_shape->values};

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
  if (grad_input.tensor.view_dims != input_shape.values) {
    FailInvalid("gradInput: expected inputShape, " + DimsText(input_shape.values) + ", got shape " +
                DimsText(grad_input.tensor.view_dims));
  }

  if (arguments.sampling_ratio < 0) {
    FailInvalid("samplingRatio: expected 0 or more, got " + std::to_string(arguments.sampling_ratio));
  }
  // Negated, so that NaN fails.
  if (!(arguments.spatial_scale > std::numeric_limits<float>::min())) {
    FailInvalid("spatialScale: expected more than 1.17549e-38, got " + std::to_string(arguments.spatial_scale));
  }

  // Not checked on a device, which counts samples in 32 bits.
  if (arguments.sampling_ratio > std::numeric_limits<int32_t>::max()) {
    FailInvalid("samplingRatio: expected less than 2147483648, got " + std::to_string(arguments.sampling_ratio));
  }
  CheckNoNegativeDim(grad_output);
  CheckNoNegativeDim(grad_input);
  for (const Argument& argument : {grad_output, boxes, grad_input}) CheckAddressable(argument);
}

Plan MakePlan(const Arguments& arguments) {
  Check(arguments);
  const int64_t elements = ElementCount(arguments.grad_input->view_dims);
  (void)ElementCount(arguments.grad_output->view_dims);
  Plan plan;
  if (elements == 0) return plan;

  // The one operator that writes its output although there is no input: without boxes, zeros are all that is left.
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
  uint64_t scratch_bytes = 0;
  if (__builtin_mul_overflow(static_cast<uint64_t>(roi.boxes), sizeof(RoiBox), &scratch_bytes)) {
    FailInvalid("boxes: there is no workspace for " + std::to_string(roi.boxes));
  }
  plan.AddScratch(scratch_bytes);
  plan.SetCompute([roi](const Launch& launch) { Compute(roi, launch); });
  return plan;
}

}  // namespace
}  // namespace acl_host

aclnnStatus aclnnRoiAlignV2BackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* boxes,
                                                    const aclIntArray* inputShape, int64_t pooledHeight,
                                                    int64_t pooledWidth, float spatialScale, int64_t samplingRatio,
                                                    bool aligned, aclTensor* gradInput, uint64_t* workspaceSize,
                                                    aclOpExecutor** executor) {
  return acl_host::PlanOperator(__func__, workspaceSize, executor, [&] {
    return acl_host::MakePlan(
        {gradOutput, boxes, inputShape, pooledHeight, pooledWidth, spatialScale, samplingRatio, aligned, gradInput});
  });
}

aclnnStatus aclnnRoiAlignV2Backward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                    aclrtStream stream) {
  return acl_host::RunOperator(__func__, workspace, workspaceSize, executor, stream);
}
