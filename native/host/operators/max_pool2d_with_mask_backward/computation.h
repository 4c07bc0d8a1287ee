#pragma once

#include <cstdint>

#include "acl/acl_base.h"
#include "families/max_pool/pooling.h"
#include "plan/plan.h"
#include "plan/vector_levels.h"

namespace acl_host {

// Each channel has a bit of its own in a word of the mask.
constexpr int64_t kMaskChannels = 16;
[[nodiscard]] inline int64_t MaskChannelGroups(const MaxPool& pool) { return (pool.channels - 1) / kMaskChannels + 1; }
[[nodiscard]] inline int64_t MaskWordsPerCell(const MaxPool& pool) {
  constexpr int64_t kGroup = 16;
  return ((pool.output.height * pool.output.width - 1) / kGroup + 2) * kGroup;
}

// gradOutput and a mask of bits -> the gradient, of a floating-point type of up to 32 bits. The scratch has room for
// the sums of so many threads.
template <VectorLevel>
struct MaxPoolOfBits {
  static void Run(const MaxPool& pool, aclDataType type, int64_t slots, const KernelArguments& arguments);
};

}  // namespace acl_host
