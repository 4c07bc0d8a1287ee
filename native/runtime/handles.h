// Owners of the small objects that aclnn functions take.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "acl_functions.h"

namespace aclgrad {

// Destroys an object with the library's own function.
template <typename Object, typename Parameter = const Object*>
struct Destroy {
  aclnnStatus (*function)(Parameter) = nullptr;
  void operator()(Object* object) const noexcept { function(object); }
};

using TensorHandle = std::unique_ptr<aclTensor, Destroy<aclTensor>>;
using IntArrayHandle = std::unique_ptr<aclIntArray, Destroy<aclIntArray>>;
using ExecutorHandle = std::unique_ptr<aclOpExecutor, Destroy<aclOpExecutor, aclOpExecutor*>>;

// A contiguous tensor over device memory that it does not own. Throws std::bad_alloc if the library cannot make one.
[[nodiscard]] TensorHandle MakeTensor(const AclFunctions& acl, const std::vector<int64_t>& shape, aclDataType dtype,
                                      void* device_data);

[[nodiscard]] IntArrayHandle MakeIntArray(const AclFunctions& acl, const std::vector<int64_t>& values);

// The format that CANN's own callers give a tensor of this rank.
[[nodiscard]] aclFormat FormatOfRank(std::size_t rank) noexcept;

}  // namespace aclgrad
