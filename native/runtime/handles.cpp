#include "handles.h"

#include <new>

namespace aclgrad {

TensorHandle MakeTensor(const AclFunctions& acl, const std::vector<int64_t>& shape, aclDataType dtype, aclFormat format,
                        void* device_data, const View* view) {
  int64_t element_count = 1;
  for (const int64_t size : shape) {
    // Next to a size of zero the other sizes may overflow; the count is zero anyway.
    if (__builtin_mul_overflow(element_count, size, &element_count)) element_count = 0;
  }
  // Null strides mean contiguous; the storage is one flat run of elements, as op-plugin describes it.
  const int64_t* strides = view == nullptr ? nullptr : view->strides.data();
  const int64_t offset = view == nullptr ? 0 : view->offset;
  const int64_t* storage = view == nullptr ? &element_count : &view->count;
  aclTensor* tensor =
      acl.aclCreateTensor(shape.data(), shape.size(), dtype, strides, offset, format, storage, 1, device_data);
  if (tensor == nullptr) throw std::bad_alloc();
  return {tensor, {acl.aclDestroyTensor}};
}

aclFormat SpatialFormat(std::size_t rank) noexcept {
  switch (rank) {
    case 3:
      return ACL_FORMAT_NCL;
    case 4:
      return ACL_FORMAT_NCHW;
    case 5:
      return ACL_FORMAT_NCDHW;
    default:
      return ACL_FORMAT_ND;
  }
}

}  // namespace aclgrad
