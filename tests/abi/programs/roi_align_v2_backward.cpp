// A complete aclnn program: the gradient of RoiAlign of one 4x4 plane, two boxes of one bin each, of four samples.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_roi_align_v2_backward.h"

#define CHECK(call)                                                             \
  do {                                                                          \
    const int code = (call);                                                    \
    if (code != 0) {                                                            \
      const char* message = aclGetRecentErrMsg();                               \
      std::fprintf(stderr, "%s: %d %s\n", #call, code, message ? message : ""); \
      return 1;                                                                 \
    }                                                                           \
  } while (0)

namespace {

struct DeviceTensor {
  void* memory = nullptr;
  aclTensor* tensor = nullptr;
};

template <typename T>
int CreateDeviceTensor(const std::vector<T>& values, const std::vector<int64_t>& shape, aclDataType type,
                       aclFormat format, DeviceTensor* result) {
  const size_t bytes = values.size() * sizeof(T);
  CHECK(aclrtMalloc(&result->memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclrtMemcpy(result->memory, bytes, values.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE));
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t axis = shape.size() - 1; axis > 0; --axis) strides[axis - 1] = shape[axis] * strides[axis];
  result->tensor = aclCreateTensor(shape.data(), shape.size(), type, strides.data(), 0, format, shape.data(),
                                   shape.size(), result->memory);
  return result->tensor == nullptr ? 1 : 0;
}

aclIntArray* CreateIntArray(const std::vector<int64_t>& values) {
  return aclCreateIntArray(values.data(), values.size());
}

}  // namespace

int main() {
  constexpr int32_t kDevice = 0;
  aclrtStream stream = nullptr;
  CHECK(aclInit(nullptr));
  CHECK(aclrtSetDevice(kDevice));
  CHECK(aclrtCreateStream(&stream));

  DeviceTensor grad_output;
  DeviceTensor boxes;
  DeviceTensor grad_input;
  const std::vector<float> coordinates = {0, 0, 0, 2, 2, 0, 2, 2, 4, 4};
  CHECK(CreateDeviceTensor(std::vector<float>{4, 8}, {2, 1, 1, 1}, ACL_FLOAT, ACL_FORMAT_NCHW, &grad_output));
  CHECK(CreateDeviceTensor(coordinates, {2, 5}, ACL_FLOAT, ACL_FORMAT_ND, &boxes));
  CHECK(CreateDeviceTensor(std::vector<float>(16, 7.0F), {1, 1, 4, 4}, ACL_FLOAT, ACL_FORMAT_NCHW, &grad_input));
  aclIntArray* const input_shape = CreateIntArray({1, 1, 4, 4});

  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  CHECK(aclnnRoiAlignV2BackwardGetWorkspaceSize(grad_output.tensor, boxes.tensor, input_shape, 1, 1, 1.0F, 2, true,
                                                grad_input.tensor, &workspace_size, &executor));
  void* workspace = nullptr;
  if (workspace_size > 0) CHECK(aclrtMalloc(&workspace, workspace_size, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclnnRoiAlignV2Backward(workspace, workspace_size, executor, stream));
  CHECK(aclrtSynchronizeStream(stream));

  std::vector<float> gradient(16);
  const size_t bytes = gradient.size() * sizeof(float);
  CHECK(aclrtMemcpy(gradient.data(), bytes, grad_input.memory, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
  for (const float value : gradient) std::printf("%g\n", static_cast<double>(value));

  for (const aclIntArray* array : {input_shape}) CHECK(aclDestroyIntArray(array));
  for (const DeviceTensor& tensor : {grad_output, boxes, grad_input}) {
    CHECK(aclDestroyTensor(tensor.tensor));
    CHECK(aclrtFree(tensor.memory));
  }
  if (workspace != nullptr) CHECK(aclrtFree(workspace));
  CHECK(aclrtDestroyStream(stream));
  CHECK(aclrtResetDevice(kDevice));
  CHECK(aclFinalize());
  return 0;
}
