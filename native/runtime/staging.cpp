#include "staging.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

namespace aclgrad {
namespace {

// Large enough to hide a copy's start, small enough to keep many of them pinned.
constexpr std::size_t kHalfBytes = std::size_t{4} << 20;

}  // namespace

Staging::Staging(const AclLibrary& library, aclrtContext context, MemoryPool& memory, MemoryPool& pinned,
                 std::optional<StreamLease> stream)
    : library_(library), context_(context), memory_(memory), pinned_(pinned), stream_(std::move(stream)) {}

std::size_t Staging::Reserve(std::size_t size_bytes) {
  library_.Check(library_->aclrtSetCurrentContext(context_), "aclrtSetCurrentContext");
  tensors_.push_back({memory_.Allocate(size_bytes), size_bytes});
  return tensors_.size() - 1;
}

void Staging::Write(std::size_t tensor, std::size_t offset, const void* data, std::size_t size_bytes,
                    Deadline deadline) {
  std::byte* place = Place(tensor, offset, size_bytes);
  const auto* source = static_cast<const std::byte*>(data);
  if (!stream_) {
    if (size_bytes != 0) std::memcpy(place, source, size_bytes);
    return;
  }
  library_.Check(library_->aclrtSetCurrentContext(context_), "aclrtSetCurrentContext");
  while (size_bytes != 0) {
    if (filled_ == kHalfBytes) {
      // The other half may still be on its way; usually it has arrived long ago.
      Finish(deadline);
      half_ = 1 - half_;
    }
    const std::size_t count = std::min(size_bytes, kHalfBytes - filled_);
    std::byte* slot = Half(half_) + filled_;
    std::memcpy(slot, source, count);
    is_busy_ = true;
    library_.Check(library_->aclrtMemcpyAsync(place, count, slot, count, ACL_MEMCPY_HOST_TO_DEVICE, (*stream_)->get()),
                   "aclrtMemcpyAsync");
    filled_ += count;
    place += count;
    source += count;
    size_bytes -= count;
  }
}

void Staging::Finish(Deadline deadline) {
  filled_ = 0;
  if (!is_busy_) return;
  library_.Check(library_->aclrtSetCurrentContext(context_), "aclrtSetCurrentContext");
  library_.Check(library_->aclrtSynchronizeStreamWithTimeout((*stream_)->get(), MillisecondsUntil(deadline)),
                 "aclrtSynchronizeStream");
  is_busy_ = false;
}

void Staging::Read(std::size_t tensor, std::size_t offset, void* target, std::size_t size_bytes, Deadline deadline) {
  const std::byte* place = Place(tensor, offset, size_bytes);
  auto* sink = static_cast<std::byte*>(target);
  if (!stream_) {
    if (size_bytes != 0) std::memcpy(sink, place, size_bytes);
    return;
  }
  while (size_bytes != 0) {
    if (!read_[half_].Covers(tensor, offset)) {
      half_ = 1 - half_;
      if (!read_[half_].Covers(tensor, offset)) StartRead(half_, tensor, offset);
      Finish(deadline);
      StartRead(1 - half_, tensor, read_[half_].offset + read_[half_].size_bytes);
    }
    const Range& ready = read_[half_];
    const std::size_t skipped = offset - ready.offset;
    const std::size_t count = std::min(size_bytes, ready.size_bytes - skipped);
    std::memcpy(sink, Half(half_) + skipped, count);
    sink += count;
    offset += count;
    size_bytes -= count;
  }
}

DeviceWork::State Staging::Settle(int32_t timeout_ms) const noexcept {
  return is_busy_ ? (*stream_)->Settle(timeout_ms) : State::kEnded;
}

std::byte* Staging::Place(std::size_t tensor, std::size_t offset, std::size_t size_bytes) const {
  const Tensor& whole = tensors_.at(tensor);
  if (offset > whole.size_bytes || size_bytes > whole.size_bytes - offset) {
    throw std::out_of_range(std::to_string(size_bytes) + " bytes at " + std::to_string(offset) +
                            " do not fit into tensor " + std::to_string(tensor) + " of " +
                            std::to_string(whole.size_bytes) + " bytes");
  }
  return static_cast<std::byte*>(whole.block.address()) + offset;
}

std::byte* Staging::Half(std::size_t half) {
  if (halves_[half].address() == nullptr) halves_[half] = pinned_.Allocate(kHalfBytes);
  return static_cast<std::byte*>(halves_[half].address());
}

void Staging::StartRead(std::size_t half, std::size_t tensor, std::size_t offset) {
  const std::size_t count = std::min(kHalfBytes, tensors_[tensor].size_bytes - offset);
  read_[half] = {tensor, offset, count};
  if (count == 0) return;
  library_.Check(library_->aclrtSetCurrentContext(context_), "aclrtSetCurrentContext");
  is_busy_ = true;
  library_.Check(library_->aclrtMemcpyAsync(Half(half), count, Place(tensor, offset, count), count,
                                            ACL_MEMCPY_DEVICE_TO_HOST, (*stream_)->get()),
                 "aclrtMemcpyAsync");
}

}  // namespace aclgrad
