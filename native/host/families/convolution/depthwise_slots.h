// The scratch of depthwise convolutions.
//
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/thread_pool.h"
#include "families/convolution/depthwise.h"
#include "plan/scratch.h"
#include "plan/scratch_slots.h"

namespace acl_host {
namespace {

// The pieces of a slot, each of whole vectors.
struct Slot {
  Slot(const Depthwise& depthwise, std::byte* memory)
      : packed(reinterpret_cast<float*>(memory)),
        results(packed + depthwise.packed_floats),
        numbers(results + depthwise.result_floats),
        more(numbers + depthwise.number_floats) {}

  float* packed;
  float* results;
  float* numbers;
  float* more;
};

// Calls make(index, slot, is_first) for each index, in order for each piece of the loop.
template <typename Make>
void ForSlots(const Depthwise& depthwise, ThreadPool& pool, std::byte* memory, int64_t count, int64_t work,
              const Make& make) {
  ScratchSlots slots(AlignedTo<std::byte>(memory, kDepthwiseAlignment), depthwise.slots,
                     static_cast<size_t>(depthwise.slot_floats()) * sizeof(float));
  pool.ParallelFor(count, Grain(work), [&](int64_t begin, int64_t end) {
    const ScratchSlots::Lease lease(slots);
    const Slot slot(depthwise, lease.memory());
    for (int64_t index = begin; index < end; ++index) {
      if constexpr (std::is_invocable_v<Make, int64_t, const Slot&, bool>) {
        make(index, slot, index == begin);
      } else {
        make(index, slot);
      }
    }
  });
}

}  // namespace
}  // namespace acl_host
