// The objects behind aclTensor and aclIntArray: plain values, copied into whatever outlives them.
#ifndef ACL_HOST_TENSOR_H_
#define ACL_HOST_TENSOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "acl/acl_base.h"
#include "aclnn/acl_meta.h"

namespace acl_host {

using Dims = std::vector<int64_t>;

// "[2, 3]"
[[nodiscard]] std::string DimsText(const Dims& dims);

// The product; empty dims make 1. Throws if it exceeds 63 bits or a dim is negative.
[[nodiscard]] int64_t ElementCount(const Dims& dims);

// Row-major strides of a tensor of these dims.
[[nodiscard]] Dims ContiguousStrides(const Dims& dims);

}  // namespace acl_host

struct aclTensor {
  acl_host::Dims view_dims;
  acl_host::Dims strides;  // in elements
  int64_t offset;          // in elements, from address to the view's first element
  acl_host::Dims storage_dims;
  aclDataType data_type;
  aclFormat format;
  void* address;  // of the storage

  [[nodiscard]] int64_t rank() const { return static_cast<int64_t>(view_dims.size()); }
  [[nodiscard]] bool empty() const;
  [[nodiscard]] bool contiguous() const;  // row-major, whatever the offset
};

struct aclIntArray {
  std::vector<int64_t> values;
};

#endif  // ACL_HOST_TENSOR_H_
