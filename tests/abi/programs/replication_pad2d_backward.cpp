// A complete aclnn program: the gradient of replication padding of one 2x2 plane to 3x5.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_pad2d_backward.h"

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
  DeviceTensor grad_input;
  const std::vector<float> grad = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  CHECK(CreateDeviceTensor(grad, {1, 1, 3, 5}, ACL_FLOAT, ACL_FORMAT_ND, &grad_output));
  CHECK(CreateDeviceTensor(std::vector<float>(4, 1.0F), {1, 1, 2, 2}, ACL_FLOAT, ACL_FORMAT_ND, &self));
  CHECK(CreateDeviceTensor(std::vector<float>(4, 0.0F), {1, 1, 2, 2}, ACL_FLOAT, ACL_FORMAT_ND, &grad_input));
  // Left, right, top, bottom.
  aclIntArray* const padding = CreateIntArray({1, 2, 0, 1});

  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  CHECK(aclnnReplicationPad2dBackwardGetWorkspaceSize(grad_output.tensor, self.tensor, padding, grad_input.tensor,
                                                      &workspace_size, &executor));
  void* workspace = nullptr;
  if (workspace_size > 0) CHECK(aclrtMalloc(&workspace, workspace_size, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclnnReplicationPad2dBackward(workspace, workspace_size, executor, stream));
  CHECK(aclrtSynchronizeStream(stream));

  std::vector<float> gradient(4);
  const size_t bytes = gradient.size() * sizeof(float);
  CHECK(aclrtMemcpy(gradient.data(), bytes, grad_input.memory, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
  for (const float value : gradient) std::printf("%g\n", static_cast<double>(value));

  for (const aclIntArray* array : {padding}) CHECK(aclDestroyIntArray(array));
  for (const DeviceTensor& tensor : {grad_output, self, grad_input}) {
    CHECK(aclDestroyTensor(tensor.tensor));
    CHECK(aclrtFree(tensor.memory));
  }
  if (workspace != nullptr) CHECK(aclrtFree(workspace));
  CHECK(aclrtDestroyStream(stream));
  CHECK(aclrtResetDevice(kDevice));
  CHECK(aclFinalize());
  return 0;
}
