// The gradient of max pooling, and the tiles in which the sums of a plane are computed.
#pragma once

#include <cstdint>

#include "acl/acl_base.h"
#include "plan/plan.h"
#include "plan/tiles.h"
#include "plan/vector_levels.h"
#include "tensors/axes.h"

namespace acl_host {

struct MaxPool {
  int64_t batches;
  int64_t channels;
  Pair input;
  Pair output;
  Pair kernel;
  Pair stride;
  Pair padding;
  aclDataType index_type;  // of the positions; UINT16: of the words of a mask

  [[nodiscard]] int64_t planes() const { return batches * channels; }
};

// Each channel has a bit of its own in a word of the mask.
constexpr int64_t kMaskChannels = 16;
[[nodiscard]] inline int64_t MaskChannelGroups(const MaxPool& pool) { return (pool.channels - 1) / kMaskChannels + 1; }
[[nodiscard]] inline int64_t MaskWordsPerCell(const MaxPool& pool) {
  constexpr int64_t kGroup = 16;
  return ((pool.output.height * pool.output.width - 1) / kGroup + 2) * kGroup;
}

// The cells of a plane whose sums are computed at a time: the whole plane, or as many rows as fit a core's cache, but
// not so few that most windows reach beyond them.
[[nodiscard]] Pair TileSize(const MaxPool& pool);

// One row of these tiles for each tile that is as high as that.
[[nodiscard]] Tiles TilesOf(const MaxPool& pool, const Pair& tile);

// The most windows over one cell.
[[nodiscard]] int64_t MostWindowsOver(const MaxPool& pool);

// The tile's sums, and one more for the windows that chose no cell of it.
[[nodiscard]] uint64_t TileBytes(const MaxPool& pool);

// What a thread takes, with these sums.
[[nodiscard]] TileWork WorkOf(const MaxPool& pool, int64_t element_bytes);

// gradOutput and positions, or a mask of bits -> the gradient, of a floating-point type of up to 32 bits. A position
// outside its own window adds nothing, as in the kernels of devices. The scratch has room for the sums of so many
// threads.
template <VectorLevel>
struct MaxPoolBackward {
  static void Run(const MaxPool& pool, aclDataType type, int64_t slots, const KernelArguments& arguments);
};

}  // namespace acl_host
