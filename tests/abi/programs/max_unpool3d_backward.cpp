// A complete aclnn program: the gradient of max unpooling of 2x2x1 cells to 2x2x3, in INT32.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_max_unpool3d_backward.h"

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
  DeviceTensor out;
  const std::vector<int32_t> grad = {10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21};
  CHECK(CreateDeviceTensor(grad, {1, 1, 2, 2, 3}, ACL_INT32, ACL_FORMAT_NCDHW, &grad_output));
  CHECK(CreateDeviceTensor(std::vector<int32_t>(4, 1), {1, 1, 2, 2, 1}, ACL_INT32, ACL_FORMAT_NCDHW, &self));
  CHECK(CreateDeviceTensor(std::vector<int64_t>{2, 3, 8, 11}, {1, 1, 2, 2, 1}, ACL_INT64, ACL_FORMAT_NCDHW, &indices));
  CHECK(CreateDeviceTensor(std::vector<int32_t>(4, 0), {1, 1, 2, 2, 1}, ACL_INT32, ACL_FORMAT_NCDHW, &out));
  aclIntArray* const output_size = CreateIntArray({2, 2, 3});
  aclIntArray* const stride = CreateIntArray({1, 1, 3});
  aclIntArray* const padding = CreateIntArray({0, 0, 0});

  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  CHECK(aclnnMaxUnpool3dBackwardGetWorkspaceSize(grad_output.tensor, self.tensor, indices.tensor, output_size, stride,
                                                 padding, out.tensor, &workspace_size, &executor));
  void* workspace = nullptr;
  if (workspace_size > 0) CHECK(aclrtMalloc(&workspace, workspace_size, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclnnMaxUnpool3dBackward(workspace, workspace_size, executor, stream));
  CHECK(aclrtSynchronizeStream(stream));

  std::vector<int32_t> gradient(4);
  const size_t bytes = gradient.size() * sizeof(int32_t);
  CHECK(aclrtMemcpy(gradient.data(), bytes, out.memory, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
  for (const int32_t value : gradient) std::printf("%d\n", static_cast<int>(value));

  for (const aclIntArray* array : {output_size, stride, padding}) CHECK(aclDestroyIntArray(array));
  for (const DeviceTensor& tensor : {grad_output, self, indices, out}) {
    CHECK(aclDestroyTensor(tensor.tensor));
    CHECK(aclrtFree(tensor.memory));
  }
  if (workspace != nullptr) CHECK(aclrtFree(workspace));
  CHECK(aclrtDestroyStream(stream));
  CHECK(aclrtResetDevice(kDevice));
  CHECK(aclFinalize());
  return 0;
}
