#include "tensors/tensor.h"

#include <algorithm>

#include "errors/exceptions.h"

namespace acl_host {

std::string DimsText(const Dims& dims) {
  std::string text = "[";
  for (const int64_t dim : dims) text += (text.size() > 1 ? ", " : "") + std::to_string(dim);
  return text + "]";
}

int64_t ElementCount(const Dims& dims) {
  // A zero makes the product zero, even if the other dims would overflow.
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return 0;
  int64_t count = 1;
  for (const int64_t dim : dims) {
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count)) {
      throw OperatorError(ACLNN_ERR_PARAM_INVALID, "there is no tensor of shape " + DimsText(dims));
    }
  }
  return count;
}

Dims ContiguousStrides(const Dims& dims) {
  Dims strides(dims.size());
  // Unsigned, because impossibly large shapes may overflow here; they are refused when they are used.
  uint64_t stride = 1;
  for (size_t axis = dims.size(); axis-- > 0;) {
    strides[axis] = static_cast<int64_t>(stride);
    stride *= static_cast<uint64_t>(std::max<int64_t>(dims[axis], 1));
  }
  return strides;
}

std::optional<ByteExtent> ViewExtent(const aclTensor& tensor) {
  if (tensor.empty()) return ByteExtent{0, 0};
  int64_t lowest = tensor.offset;
  int64_t highest = tensor.offset;
  bool overflow = false;
  for (size_t axis = 0; axis < tensor.view_dims.size(); ++axis) {
    int64_t reach = 0;
    overflow |= __builtin_mul_overflow(tensor.view_dims[axis] - 1, tensor.strides[axis], &reach);
    int64_t& end = reach < 0 ? lowest : highest;
    overflow |= __builtin_add_overflow(end, reach, &end);
  }
  const auto element_bytes = static_cast<int64_t>(aclDataTypeSize(tensor.data_type));
  int64_t begin_byte = 0;
  int64_t end_byte = 0;
  overflow |= __builtin_add_overflow(highest, 1, &highest);
  overflow |= __builtin_mul_overflow(lowest, element_bytes, &begin_byte);
  overflow |= __builtin_mul_overflow(highest, element_bytes, &end_byte);
  if (overflow) return std::nullopt;
  return ByteExtent{begin_byte, static_cast<uint64_t>(end_byte) - static_cast<uint64_t>(begin_byte)};
}

std::optional<Dims> BroadcastDims(const Dims& one, const Dims& other) {
  const Dims& shorter = one.size() < other.size() ? one : other;
  Dims dims = one.size() < other.size() ? other : one;
  const size_t added = dims.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) {
    int64_t& dim = dims[added + i];
    if (dim == 1) dim = shorter[i];
    if (dim != shorter[i] && shorter[i] != 1) return std::nullopt;
  }
  return dims;
}

aclTensor Broadcast(const aclTensor& tensor, const Dims& dims) {
  aclTensor view = tensor;
  const size_t added = dims.size() - tensor.view_dims.size();
  view.strides.insert(view.strides.begin(), added, 0);
  view.view_dims = dims;
  for (size_t i = 0; i < tensor.view_dims.size(); ++i) {
    if (tensor.view_dims[i] != dims[added + i]) view.strides[added + i] = 0;
  }
  return view;
}

}  // namespace acl_host

bool aclTensor::empty() const { return std::find(view_dims.begin(), view_dims.end(), 0) != view_dims.end(); }

bool aclTensor::contiguous() const {
  if (empty()) return true;
  const acl_host::Dims row_major = acl_host::ContiguousStrides(view_dims);
  for (size_t axis = 0; axis < view_dims.size(); ++axis) {
    // The stride of an axis of one element is never used.
    if (view_dims[axis] != 1 && strides[axis] != row_major[axis]) return false;
  }
  return true;
}
