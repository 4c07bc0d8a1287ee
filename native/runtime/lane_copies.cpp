#include "lane_copies.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace aclgrad {
namespace {

std::size_t Aligned(std::size_t size_bytes) {
  return (size_bytes + kCopyAlignment - 1) / kCopyAlignment * kCopyAlignment;
}

}  // namespace

LaneCopies::Arrival LaneCopies::AddInput(const HostBytes& bytes, std::size_t size_bytes) {
  const Key key(bytes.data, bytes.size_bytes, size_bytes);
  if (is_shared_) {
    if (const auto found = shared_.find(key); found != shared_.end()) {
      return {found->second, inputs_[found->second].address};
    }
  }
  const std::size_t number = inputs_.size();
  void* const address = memory_.Allocate(size_bytes);
  inputs_.push_back({bytes, address, size_bytes, false, nullptr});
  if (is_shared_) shared_.emplace(key, number);
  return {number, address};
}

std::size_t LaneCopies::PinnedBytes(std::size_t size_bytes) noexcept {
  return size_bytes <= kMostPinnedBytes ? Aligned(size_bytes) : 0;
}

void LaneCopies::PrepareInputs(std::size_t pinned_output_bytes) {
  // A device that takes host addresses copies by itself at once. A stream would wake a thread for it.
  if (!library_.host_pointers()) {
    std::size_t pinned_bytes = 0;
    for (const Input& each : inputs_) {
      if (each.is_needed) pinned_bytes += PinnedBytes(each.bytes.size_bytes);
    }
    pinned_ = pinned_memory_.TryAllocate(std::min(std::max(pinned_bytes, pinned_output_bytes), kMostPinnedBytes));
  }
  for (Input& each : inputs_) {
    if (!each.is_needed) continue;
    const auto& [data, size_bytes] = each.bytes;
    each.pinned = TakePinned(size_bytes);
    if (each.pinned != nullptr) {
      std::memcpy(each.pinned, data, size_bytes);
    } else {
      // Blocking: pageable memory makes an asynchronous copy block as well, and copy once more.
      Copy(each.address, each.size_bytes, data, size_bytes, ACL_MEMCPY_HOST_TO_DEVICE);
    }
  }
}

void LaneCopies::QueueInputs(const Stream& stream) const {
  for (const Input& each : inputs_) {
    if (each.pinned == nullptr) continue;
    Queue(each.address, each.pinned, each.bytes.size_bytes, ACL_MEMCPY_HOST_TO_DEVICE, stream);
  }
}

void LaneCopies::AddOutput(const OutputBytes& output, const void* address) {
  outputs_.push_back({output, address, nullptr});
}

void LaneCopies::QueueOutputs(const Stream& stream) {
  // The stream has read the inputs before it comes to these, so they take the same pinned memory.
  pinned_bytes_ = 0;
  for (auto& [output, address, pinned] : outputs_) {
    if (address == output.host) continue;
    pinned = TakePinned(output.size_bytes);
    if (pinned != nullptr) Queue(pinned, address, output.size_bytes, ACL_MEMCPY_DEVICE_TO_HOST, stream);
  }
}

void LaneCopies::FinishOutputs() const {
  for (const auto& [output, address, pinned] : outputs_) {
    if (pinned != nullptr) {
      std::memcpy(output.host, pinned, output.size_bytes);
    } else if (address != output.host) {
      Copy(output.host, output.size_bytes, address, output.size_bytes, ACL_MEMCPY_DEVICE_TO_HOST);
    }
    if (output.host_copy != nullptr) std::memcpy(output.host_copy, output.host, output.size_bytes);
  }
}

std::byte* LaneCopies::TakePinned(std::size_t size_bytes) {
  const std::size_t end = pinned_bytes_ + Aligned(size_bytes);
  if (size_bytes == 0 || end > pinned_.capacity()) return nullptr;
  return static_cast<std::byte*>(pinned_.address()) + std::exchange(pinned_bytes_, end);
}

void LaneCopies::Queue(void* target, const void* source, std::size_t size_bytes, aclrtMemcpyKind kind,
                       const Stream& stream) const {
  library_.Check(library_->aclrtMemcpyAsync(target, size_bytes, source, size_bytes, kind, stream.get()),
                 "aclrtMemcpyAsync");
}

void LaneCopies::Copy(void* target, std::size_t capacity, const void* source, std::size_t size_bytes,
                      aclrtMemcpyKind kind) const {
  if (size_bytes == 0) return;
  const StepWatch::Step step(steps_);
  library_.Check(library_->aclrtMemcpy(target, capacity, source, size_bytes, kind), "aclrtMemcpy");
}

}  // namespace aclgrad
