#include "stream.h"

#include "error.h"

namespace aclgrad {

Stream::Stream(const AclLibrary& library, MemoryPool& memory, std::size_t executor_limit)
    : library_(library), memory_(memory), executors_(library, executor_limit) {
  library_.Check(library_->aclrtCreateStream(&stream_), "aclrtCreateStream");
}

Stream::~Stream() {
  aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
  const bool is_done =
      library_->aclrtStreamQuery(stream_, &status) == ACL_SUCCESS && status == ACL_STREAM_STATUS_COMPLETE;
  // Destroying waits for the work, which for a hanging kernel is for ever.
  static_cast<void>(is_done ? library_->aclrtDestroyStream(stream_) : library_->aclrtDestroyStreamForce(stream_));
}

void* Stream::Workspace(std::size_t size_bytes) {
  // In pass-through a block of its own for each call, of exactly its size, so that the library can see beyond its end.
  const bool fits = workspace_.capacity() >= size_bytes && !memory_.is_pass_through();
  if (!fits) {
    workspace_ = {};
    workspace_ = memory_.Allocate(size_bytes, stream_);
  }
  return size_bytes == 0 ? nullptr : workspace_.address();
}

DeviceWork::State Stream::Settle(int32_t timeout_ms) const noexcept {
  const int wait = library_->aclrtSynchronizeStreamWithTimeout(stream_, timeout_ms);
  aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
  const int query = library_->aclrtStreamQuery(stream_, &status);
  for (const int code : {wait, query}) {
    if (ClassifyFault(code) == FaultClass::kDeviceLost) return {false, code};
  }
  return {query == ACL_SUCCESS && status == ACL_STREAM_STATUS_COMPLETE};
}

}  // namespace aclgrad
