// A complete aclnn program: the gradient of adaptive average pooling of one 3x4 plane to 2x2.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_adaptive_avg_pool2d_backward.h"

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

int CreateDeviceTensor(const std::vector<float>& values, const std::vector<int64_t>& shape, DeviceTensor* result) {
  const size_t bytes = values.size() * sizeof(float);
  CHECK(aclrtMalloc(&result->memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclrtMemcpy(result->memory, bytes, values.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE));
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t axis = shape.size() - 1; axis > 0; --axis) strides[axis - 1] = shape[axis] * strides[axis];
  result->tensor = aclCreateTensor(shape.data(), shape.size(), ACL_FLOAT, strides.data(), 0, ACL_FORMAT_NCHW,
                                   shape.data(), shape.size(), result->memory);
  return result->tensor == nullptr ? 1 : 0;
}

}  // namespace

int main() {
  constexpr int32_t kDevice = 0;
  aclrtStream stream = nullptr;
  CHECK(aclInit(nullptr));
  CHECK(aclrtSetDevice(kDevice));
  CHECK(aclrtCreateStream(&stream));

  DeviceTensor grad_output;
  DeviceTensor self;
  DeviceTensor out;
  CHECK(CreateDeviceTensor({4, 8, 12, 16}, {1, 1, 2, 2}, &grad_output));
  CHECK(CreateDeviceTensor(std::vector<float>(12, 1.0F), {1, 1, 3, 4}, &self));
  CHECK(CreateDeviceTensor(std::vector<float>(12, 0.0F), {1, 1, 3, 4}, &out));

  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  CHECK(aclnnAdaptiveAvgPool2dBackwardGetWorkspaceSize(grad_output.tensor, self.tensor, out.tensor, &workspace_size,
                                                       &executor));
  void* workspace = nullptr;
  if (workspace_size > 0) CHECK(aclrtMalloc(&workspace, workspace_size, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclnnAdaptiveAvgPool2dBackward(workspace, workspace_size, executor, stream));
  CHECK(aclrtSynchronizeStream(stream));

  std::vector<float> gradient(12);
  const size_t bytes = gradient.size() * sizeof(float);
  CHECK(aclrtMemcpy(gradient.data(), bytes, out.memory, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
  for (const float value : gradient) std::printf("%g\n", static_cast<double>(value));

  for (const DeviceTensor& tensor : {grad_output, self, out}) {
    CHECK(aclDestroyTensor(tensor.tensor));
    CHECK(aclrtFree(tensor.memory));
  }
  if (workspace != nullptr) CHECK(aclrtFree(workspace));
  CHECK(aclrtDestroyStream(stream));
  CHECK(aclrtResetDevice(kDevice));
  CHECK(aclFinalize());
  return 0;
}
