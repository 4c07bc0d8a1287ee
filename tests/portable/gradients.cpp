// Prints a digest of the gradients of three operators, over rows of every length up to two vectors and more, and over
// all types: what must not depend on the processor.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_adaptive_avg_pool2d_backward.h"
#include "aclnnop/aclnn_max_pool2d_with_indices_backward.h"
#include "aclnnop/aclnn_pad2d_backward.h"

namespace {

void Check(int code, const char* what) {
  if (code == 0) return;
  const char* const message = aclGetRecentErrMsg();
  std::fprintf(stderr, "%s: %d %s\n", what, code, message != nullptr ? message : "");
  std::exit(1);
}

uint32_t Random() {
  static uint32_t state = 1;
  state = state * 1664525U + 1013904223U;
  return state >> 8;
}

using Shape = std::vector<int64_t>;

class Tensor {
 public:
  Tensor(const Shape& shape, aclDataType type) : bytes_(aclDataTypeSize(type)) {
    for (const int64_t dim : shape) bytes_ *= static_cast<size_t>(dim);
    memory_.resize(bytes_ + 1);
    handle_ = aclCreateTensor(shape.data(), shape.size(), type, nullptr, 0, ACL_FORMAT_NCHW, shape.data(), shape.size(),
                              data());
  }
  ~Tensor() { aclDestroyTensor(handle_); }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  // Numbers around 1, of either sign: their upper 16 bits are BF16, or are FLOAT16 if narrowed further.
  void Fill(aclDataType type) {
    for (size_t i = 0; i + 1 < bytes_; i += 2) {
      const bool is_upper = type != ACL_FLOAT || i % 4 == 2;
      const uint32_t exponent = type == ACL_FLOAT16 ? 0x3000U : 0x3E80U;
      const uint32_t upper = (Random() & 0x8000U) | (exponent + (Random() & (type == ACL_FLOAT16 ? 0xFFFU : 0x1FFU)));
      const uint32_t bits = is_upper ? upper : Random();
      data()[i] = static_cast<uint8_t>(bits);
      data()[i + 1] = static_cast<uint8_t>(bits >> 8);
    }
  }

  // At an odd address.
  [[nodiscard]] uint8_t* data() { return memory_.data() + 1; }
  [[nodiscard]] size_t bytes() const { return bytes_; }
  [[nodiscard]] aclTensor* handle() const { return handle_; }

 private:
  size_t bytes_;
  std::vector<uint8_t> memory_;
  aclTensor* handle_;
};

uint64_t digest = 14695981039346656037U;

template <typename Launch>
void Run(uint64_t workspace_bytes, aclOpExecutor* executor, const Launch& launch, Tensor& out) {
  void* workspace = nullptr;
  if (workspace_bytes > 0) Check(aclrtMalloc(&workspace, workspace_bytes, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
  Check(launch(workspace, workspace_bytes, executor, nullptr), "launch");
  Check(aclrtSynchronizeStream(nullptr), "aclrtSynchronizeStream");
  if (workspace != nullptr) Check(aclrtFree(workspace), "aclrtFree");
  for (size_t i = 0; i < out.bytes(); ++i) digest = (digest ^ out.data()[i]) * 1099511628211U;
}

void Pool(int64_t width, int64_t windows, aclDataType type) {
  Tensor grad({2, 3, windows}, type);
  Tensor out({2, 5, width}, type);
  grad.Fill(type);
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  Check(aclnnAdaptiveAvgPool2dBackwardGetWorkspaceSize(grad.handle(), out.handle(), out.handle(), &size, &executor),
        "adaptive pool");
  Run(size, executor, aclnnAdaptiveAvgPool2dBackward, out);
}

void Pad(int64_t width, aclDataType type) {
  Tensor grad({2, 7, width + 5}, type);
  Tensor out({2, 4, width}, type);
  grad.Fill(type);
  const int64_t values[] = {2, 3, 1, 2};
  aclIntArray* const padding = aclCreateIntArray(values, 4);
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  Check(aclnnReplicationPad2dBackwardGetWorkspaceSize(grad.handle(), out.handle(), padding, out.handle(), &size,
                                                      &executor),
        "pad");
  Run(size, executor, aclnnReplicationPad2dBackward, out);
  aclDestroyIntArray(padding);
}

// Windows of 3x3, stride 2, padding 1; each chooses the cell that is common to most of its neighbours.
void MaxPool(int64_t width, aclDataType type) {
  constexpr int64_t kHeight = 5;
  const int64_t rows = (kHeight - 1) / 2 + 1;
  const int64_t columns = (width - 1) / 2 + 1;
  Tensor grad({1, 2, rows, columns}, type);
  Tensor out({1, 2, kHeight, width}, type);
  grad.Fill(type);
  std::vector<int32_t> argmax;
  for (int64_t i = 0; i < 2 * rows * columns; ++i) {
    const int64_t y = i / columns % rows * 2;
    const int64_t x = i % columns * 2;
    const int64_t down = y + 1 < kHeight ? 1 : 0;
    const int64_t right = x + 1 < width && Random() % 2 == 0 ? 1 : 0;
    argmax.push_back(static_cast<int32_t>((y + down) * width + x + right));
  }
  const Shape shape = {1, 2, 1, static_cast<int64_t>(argmax.size()) * 2};
  aclTensor* const mask =
      aclCreateTensor(shape.data(), 4, ACL_INT8, nullptr, 0, ACL_FORMAT_NCHW, shape.data(), 4, argmax.data());
  const int64_t values[] = {3, 2, 1, 1};
  aclIntArray* arrays[4];
  for (int i = 0; i < 4; ++i) arrays[i] = aclCreateIntArray(values + i, 1);
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  Check(aclnnMaxPool2dWithMaskBackwardGetWorkspaceSize(grad.handle(), out.handle(), mask, arrays[0], arrays[1],
                                                       arrays[2], arrays[3], false, out.handle(), &size, &executor),
        "max pool");
  Run(size, executor, aclnnMaxPool2dWithMaskBackward, out);
  for (aclIntArray* const array : arrays) aclDestroyIntArray(array);
  aclDestroyTensor(mask);
}

}  // namespace

int main() {
  Check(aclInit(nullptr), "aclInit");
  Check(aclrtSetDevice(0), "aclrtSetDevice");
  for (const aclDataType type : {ACL_FLOAT, ACL_FLOAT16, ACL_BF16}) {
    for (int64_t width = 1; width <= 66; ++width) {
      for (const int64_t windows : {(width + 2) / 3, width, width + 2}) Pool(width, windows, type);
      Pad(width, type);
      MaxPool(width, type);
    }
  }
  Check(aclFinalize(), "aclFinalize");
  std::printf("%016llx\n", static_cast<unsigned long long>(digest));
  return 0;
}
