// The objects behind aclTensor, aclScalar and the arrays: plain values, which executors copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "acl/acl_base.h"
#include "aclnn/acl_meta.h"

namespace acl_host {

using Dims = std::vector<int64_t>;

// "[2, 3]"
[[nodiscard]] std::string DimsText(const Dims& dims);

// The product of the dims; 1 without dims. Throws if it exceeds 63 bits or a dim is negative.
[[nodiscard]] int64_t ElementCount(const Dims& dims);

// Row-major strides of a tensor of these dims.
[[nodiscard]] Dims ContiguousStrides(const Dims& dims);

// The address of a tensor's data. Shared with the executors that were made from the tensor: a new address applies to
// them from the next launch on.
struct Storage {
  void* address;
};

// A range of bytes, relative to the address of a storage.
struct ByteExtent {
  int64_t begin;
  uint64_t size;
};

}  // namespace acl_host

struct aclTensor {
  acl_host::Dims view_dims;
  acl_host::Dims strides;  // in elements
  int64_t offset;          // in elements, from the storage's address to the view's first element
  acl_host::Dims storage_dims;
  aclDataType data_type;
  aclFormat format;
  std::shared_ptr<acl_host::Storage> storage;

  [[nodiscard]] int64_t rank() const { return static_cast<int64_t>(view_dims.size()); }
  [[nodiscard]] bool empty() const;
  [[nodiscard]] bool contiguous() const;  // row-major, at any offset
};

struct aclIntArray {
  std::vector<int64_t> values;
};

struct aclBoolArray {
  std::vector<bool> values;
};

struct aclScalar {
  aclDataType data_type;
  std::vector<std::byte> value;
};

struct aclTensorList {
  std::vector<std::unique_ptr<const aclTensor>> tensors;  // null where the caller gave null
};

namespace acl_host {

// The bytes from the first to the last element of a view, unless an offset does not fit in 63 bits.
[[nodiscard]] std::optional<ByteExtent> ViewExtent(const aclTensor& tensor);

// The dims of two tensors after broadcasting, if there are any.
[[nodiscard]] std::optional<Dims> BroadcastDims(const Dims& one, const Dims& other);

// A view that repeats the tensor along the axes that are broadcast, whose strides are 0.
[[nodiscard]] aclTensor Broadcast(const aclTensor& tensor, const Dims& dims);

}  // namespace acl_host
