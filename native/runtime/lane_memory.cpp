#include "lane_memory.h"

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace aclgrad {

void LaneMemory::Reserve(std::size_t arena_bytes, std::size_t scratch_bytes) {
  if (arena_bytes != 0) arena_ = static_cast<std::byte*>(Allocate(arena_bytes));
  arena_bytes_ = arena_bytes;
  if (scratch_bytes != 0) scratch_ = static_cast<std::byte*>(Allocate(scratch_bytes));
  scratch_bytes_ = scratch_bytes;
}

void* LaneMemory::At(const Place& place) const {
  if (place.offset > arena_bytes_ || place.size_bytes > arena_bytes_ - place.offset) {
    throw std::out_of_range("a place of " + std::to_string(place.size_bytes) + " bytes at " +
                            std::to_string(place.offset) + " is outside an arena of " + std::to_string(arena_bytes_) +
                            " bytes");
  }
  return arena_ + place.offset;
}

void* LaneMemory::AllocateForStep(std::size_t size_bytes) {
  const std::size_t needed_bytes = ScratchBytes(size_bytes);
  if (needed_bytes > scratch_bytes_ - scratch_used_bytes_) return Allocate(size_bytes);
  return size_bytes == 0 ? nullptr : scratch_ + std::exchange(scratch_used_bytes_, scratch_used_bytes_ + needed_bytes);
}

std::size_t LaneMemory::ScratchBytes(std::size_t size_bytes) noexcept {
  // No block has half of all addresses: such a size must not come around to a small one.
  if (size_bytes == 0 || size_bytes > SIZE_MAX / 2) return size_bytes;
  return PaddedBytes(size_bytes);
}

}  // namespace aclgrad
