// The device memory of one lane: see group.h. It must outlive the work of its stream.
#pragma once

#include <cstddef>
#include <vector>

#include "constants.h"
#include "memory_pool.h"
#include "operator_call.h"

namespace aclgrad {

class LaneMemory {
 public:
  LaneMemory(MemoryPool& pool, Constants& constants) : pool_(pool), constants_(constants) {}

  // Takes the memory that steps have in common: for places, and what each needs only while it runs. A lane of one step
  // has no scratch, so that a strict device sees every block. Throws what MemoryPool::Allocate throws, as all do.
  void Reserve(std::size_t arena_bytes, std::size_t scratch_bytes);

  // Begins the next step, which may have all of the scratch: the stream runs it after the step before.
  void BeginStep() noexcept { scratch_used_bytes_ = 0; }

  // Throws std::out_of_range for a place outside the arena.
  [[nodiscard]] void* At(const Place& place) const;
  [[nodiscard]] void* At(const Constant& constant) const { return constants_.At(constant); }

  // Memory until the end of the lane. Null for size 0.
  [[nodiscard]] void* Allocate(std::size_t size_bytes) { return Take(size_bytes).address(); }

  // Memory until the end of the step.
  [[nodiscard]] void* AllocateForStep(std::size_t size_bytes);

  // What AllocateForStep takes of the scratch.
  [[nodiscard]] static std::size_t ScratchBytes(std::size_t size_bytes) noexcept;

 private:
  [[nodiscard]] const PoolBlock& Take(std::size_t size_bytes) {
    return blocks_.emplace_back(pool_.Allocate(size_bytes));
  }

  MemoryPool& pool_;
  Constants& constants_;
  std::vector<PoolBlock> blocks_;
  std::byte* arena_ = nullptr;
  std::size_t arena_bytes_ = 0;
  std::byte* scratch_ = nullptr;
  std::size_t scratch_bytes_ = 0;
  std::size_t scratch_used_bytes_ = 0;
};

}  // namespace aclgrad
