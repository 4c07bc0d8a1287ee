// The operators that torch_npu has no function for, called as a user's extension calls them: phase 1 at once, phase 2
// through torch_npu's queue of tasks.
#include <torch/extension.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "aclnn/acl_meta.h"
#include "aclnnop/aclnn_max_unpool2d_backward.h"
#include "aclnnop/aclnn_max_unpool3d_backward.h"
#include "aclnnop/aclnn_roi_align_v2_backward.h"
#include "torch_npu/csrc/core/npu/NPUStream.h"
#include "torch_npu/csrc/framework/OpCommand.h"

namespace {

aclDataType TypeOf(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return ACL_FLOAT;
    case at::kHalf:
      return ACL_FLOAT16;
    case at::kLong:
      return ACL_INT64;
    default:
      TORCH_CHECK(false, "these tests use no tensors of ", tensor.scalar_type());
  }
}

aclTensor* TensorOf(const at::Tensor& tensor, aclFormat format) {
  const int64_t size = static_cast<int64_t>(tensor.storage().nbytes() / tensor.element_size());
  return aclCreateTensor(tensor.sizes().data(), tensor.dim(), TypeOf(tensor), tensor.strides().data(),
                         tensor.storage_offset(), format, &size, 1, tensor.storage().mutable_data());
}

aclIntArray* ArrayOf(at::IntArrayRef values) { return aclCreateIntArray(values.data(), values.size()); }

using PhaseTwo = aclnnStatus (*)(void*, uint64_t, aclOpExecutor*, aclrtStream);
using PhaseOne = std::function<aclnnStatus(const std::vector<aclTensor*>&, const std::vector<aclIntArray*>&, uint64_t*,
                                           aclOpExecutor**)>;

void Run(const char* name, const PhaseOne& plan, PhaseTwo run, const std::vector<at::Tensor>& given, aclFormat format,
         const std::vector<at::IntArrayRef>& lists) {
  std::vector<aclTensor*> tensors;
  for (const at::Tensor& tensor : given)
    tensors.push_back(TensorOf(tensor, tensor.dim() == 2 ? ACL_FORMAT_ND : format));
  std::vector<aclIntArray*> arrays;
  for (const at::IntArrayRef& list : lists) arrays.push_back(ArrayOf(list));
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  const aclnnStatus planned = plan(tensors, arrays, &size, &executor);
  TORCH_CHECK(planned == 0, name, " failed in phase 1 with ", planned, ": ", aclGetRecentErrMsg());
  const at::Tensor workspace =
      at::empty({static_cast<int64_t>(size)}, at::TensorOptions().dtype(at::kByte).device(given[0].device()));
  const aclrtStream stream = c10_npu::getCurrentNPUStream().stream(false);
  at_npu::native::OpCommand::RunOpApiV2(name, [=, keep = given]() -> int {
    const aclnnStatus status = run(workspace.data_ptr(), size, executor, stream);
    for (aclTensor* tensor : tensors) aclDestroyTensor(tensor);
    for (aclIntArray* array : arrays) aclDestroyIntArray(array);
    return status;
  });
}

at::Tensor MaxUnpool2dBackward(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& indices,
                               std::vector<int64_t> output_size) {
  at::Tensor result = at::empty(self.sizes(), self.options());
  Run("aclnnMaxUnpool2dBackward",
      [](const auto& t, const auto& a, auto* size, auto** executor) {
        return aclnnMaxUnpool2dBackwardGetWorkspaceSize(t[0], t[1], t[2], a[0], t[3], size, executor);
      },
      aclnnMaxUnpool2dBackward, {grad, self, indices, result}, ACL_FORMAT_NCHW, {output_size});
  return result;
}

at::Tensor MaxUnpool3dBackward(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& indices,
                               std::vector<int64_t> output_size, std::vector<int64_t> stride,
                               std::vector<int64_t> padding) {
  at::Tensor result = at::empty(self.sizes(), self.options());
  Run("aclnnMaxUnpool3dBackward",
      [](const auto& t, const auto& a, auto* size, auto** executor) {
        return aclnnMaxUnpool3dBackwardGetWorkspaceSize(t[0], t[1], t[2], a[0], a[1], a[2], t[3], size, executor);
      },
      aclnnMaxUnpool3dBackward, {grad, self, indices, result}, ACL_FORMAT_NCDHW, {output_size, stride, padding});
  return result;
}

at::Tensor RoiAlignV2Backward(const at::Tensor& grad, const at::Tensor& boxes, std::vector<int64_t> input_shape,
                              int64_t pooled_height, int64_t pooled_width, double spatial_scale, int64_t sampling_ratio,
                              bool aligned) {
  at::Tensor result = at::empty(input_shape, grad.options());
  Run("aclnnRoiAlignV2Backward",
      [=](const auto& t, const auto& a, auto* size, auto** executor) {
        return aclnnRoiAlignV2BackwardGetWorkspaceSize(t[0], t[1], a[0], pooled_height, pooled_width,
                                                       static_cast<float>(spatial_scale), sampling_ratio, aligned, t[2],
                                                       size, executor);
      },
      aclnnRoiAlignV2Backward, {grad, boxes, result}, ACL_FORMAT_NCHW, {input_shape});
  return result;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  module.def("max_unpool2d_backward", &MaxUnpool2dBackward);
  module.def("max_unpool3d_backward", &MaxUnpool3dBackward);
  module.def("roi_align_v2_backward", &RoiAlignV2Backward);
}
