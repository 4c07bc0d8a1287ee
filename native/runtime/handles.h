// Owners of the small objects that aclnn functions take.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "acl_functions.h"
#include "view.h"

namespace aclgrad {

// Destroys an object with the library's own function.
template <typename Object, typename Parameter = const Object*>
struct Destroy {
  aclnnStatus (*function)(Parameter) = nullptr;
  void operator()(Object* object) const noexcept { function(object); }
};

using TensorHandle = std::unique_ptr<aclTensor, Destroy<aclTensor>>;
using ExecutorHandle = std::unique_ptr<aclOpExecutor, Destroy<aclOpExecutor, aclOpExecutor*>>;

// A tensor over device memory that it does not own, row-major without a view. Throws std::bad_alloc if the library
// cannot make one.
[[nodiscard]] TensorHandle MakeTensor(const AclFunctions& acl, const std::vector<int64_t>& shape, aclDataType dtype,
                                      aclFormat format, void* device_data, const View* view = nullptr);

// Keeps an array or a scalar.
using ValueHandle = std::shared_ptr<const void>;

// Wraps what the library created; throws std::bad_alloc if it is null.
template <typename Value>
[[nodiscard]] ValueHandle Own(const Value* value, aclnnStatus (*destroy)(const Value*)) {
  if (value == nullptr) throw std::bad_alloc();
  return {value, destroy};
}

// The format that CANN's own callers give a tensor of this rank with a batch, channels and spatial axes.
[[nodiscard]] aclFormat SpatialFormat(std::size_t rank) noexcept;

}  // namespace aclgrad
