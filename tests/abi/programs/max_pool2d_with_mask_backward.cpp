// A complete aclnn program: the gradient of max pooling of one 3x3 plane with windows of 2x2, one apart. The mask is
// what the forward operator writes on an Atlas A2: four INT32 positions, and memory that is never read.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_max_pool2d_with_indices_backward.h"

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
  DeviceTensor self;
  DeviceTensor indices;
  DeviceTensor grad_input;
  std::vector<int8_t> mask(4 * 64, 0x55);
  const std::vector<int32_t> positions = {4, 4, 6, 8};
  std::memcpy(mask.data(), positions.data(), positions.size() * sizeof(int32_t));
  CHECK(CreateDeviceTensor(std::vector<float>{1, 2, 3, 4}, {1, 1, 2, 2}, ACL_FLOAT, ACL_FORMAT_NCHW, &grad_output));
  CHECK(CreateDeviceTensor(std::vector<float>(9, 1.0F), {1, 1, 3, 3}, ACL_FLOAT, ACL_FORMAT_NCHW, &self));
  CHECK(CreateDeviceTensor(mask, {1, 1, 4, 64}, ACL_INT8, ACL_FORMAT_NCHW, &indices));
  CHECK(CreateDeviceTensor(std::vector<float>(9, 7.0F), {1, 1, 3, 3}, ACL_FLOAT, ACL_FORMAT_NCHW, &grad_input));
  aclIntArray* const kernel_size = CreateIntArray({2, 2});
  aclIntArray* const stride = CreateIntArray({1, 1});
  aclIntArray* const padding = CreateIntArray({0, 0});
  aclIntArray* const dilation = CreateIntArray({1, 1});

  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  CHECK(aclnnMaxPool2dWithMaskBackwardGetWorkspaceSize(grad_output.tensor, self.tensor, indices.tensor, kernel_size,
                                                       stride, padding, dilation, false, grad_input.tensor,
                                                       &workspace_size, &executor));
  void* workspace = nullptr;
  if (workspace_size > 0) CHECK(aclrtMalloc(&workspace, workspace_size, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclnnMaxPool2dWithMaskBackward(workspace, workspace_size, executor, stream));
  CHECK(aclrtSynchronizeStream(stream));

  std::vector<float> gradient(9);
  const size_t bytes = gradient.size() * sizeof(float);
  CHECK(aclrtMemcpy(gradient.data(), bytes, grad_input.memory, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
  for (const float value : gradient) std::printf("%g\n", static_cast<double>(value));

  for (const aclIntArray* array : {kernel_size, stride, padding, dilation}) CHECK(aclDestroyIntArray(array));
  for (const DeviceTensor& tensor : {grad_output, self, indices, grad_input}) {
    CHECK(aclDestroyTensor(tensor.tensor));
    CHECK(aclrtFree(tensor.memory));
  }
  if (workspace != nullptr) CHECK(aclrtFree(workspace));
  CHECK(aclrtDestroyStream(stream));
  CHECK(aclrtResetDevice(kDevice));
  CHECK(aclFinalize());
  return 0;
}
