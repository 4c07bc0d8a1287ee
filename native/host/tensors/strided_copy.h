// Copies of elements from one view to another: of contiguous memory, between strides, and of one element to all places.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/thread_pool.h"
#include "tensors/tensor.h"
#include "tensors/view_walk.h"

namespace acl_host {

// A copy between views of one type and the same dims, which have elements. Threads share its units.
class StridedCopy {
 public:
  StridedCopy(const Dims& dims, const Dims& from, const Dims& to, aclDataType type);

  [[nodiscard]] int64_t units() const { return units_; }
  [[nodiscard]] int64_t unit_elements() const { return unit_elements_; }

  // Copies the units [begin, end), given the addresses of the first elements, which may be at any byte.
  void Run(const std::byte* from, std::byte* to, int64_t begin, int64_t end) const;
  void Run(ThreadPool& pool, const std::byte* from, std::byte* to) const;

 private:
  // The axis along which the view that is read has its elements side by side, and the rows, along which the other has
  // them: their elements are copied by tiles. Empty for other views.
  struct Planes {
    WalkedAxis<2> across{1, {1, 1}};
    int64_t tiles_across = 0;
    int64_t tiles_along = 0;
  };

  void FindPlanes();
  template <typename Element>
  void CopyRows(const std::byte* from, std::byte* to, int64_t begin, int64_t end) const;
  template <typename Element>
  void CopyTiles(const std::byte* from, std::byte* to, int64_t begin, int64_t end) const;

  ViewWalk<2> walk_;
  Planes planes_;
  aclDataType type_;
  int64_t units_ = 0;
  int64_t unit_elements_ = 0;
};

// The view is the tensor's, over a storage at the given address. The contiguous side is row-major and may start at any
// byte.
void CopyFromView(ThreadPool& pool, const aclTensor& tensor, const void* storage, std::byte* contiguous);
void CopyToView(ThreadPool& pool, const std::byte* contiguous, const aclTensor& tensor, void* storage);

}  // namespace acl_host
