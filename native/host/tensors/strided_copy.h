// Copies between a strided view and contiguous memory.
#pragma once

#include <cstddef>

#include "device/thread_pool.h"
#include "tensors/tensor.h"

namespace acl_host {

// The view is the tensor's, over a storage at the given address. The contiguous side is row-major and may start at any
// byte.
void CopyFromView(ThreadPool& pool, const aclTensor& tensor, const void* storage, std::byte* contiguous);
void CopyToView(ThreadPool& pool, const std::byte* contiguous, const aclTensor& tensor, void* storage);

}  // namespace acl_host
