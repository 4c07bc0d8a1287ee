// Divides RoiAlign's gradient into blocks of some rows, columns and channels. A block is so small that its sums stay in
// the cache of a core while all boxes of its image are added.
//
// A cell belongs to one block and is summed in the order of the boxes, so the result does not depend on the number of
// threads or the division, in any bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sampling.h"
#include "tensors/axes.h"

namespace acl_host {

// Cells of some images, in all channels.
struct RoiRegion {
  Range images;
  Range rows;
  Range columns;
};

// The sizes of a block; those at an edge may be smaller.
struct RoiBlocks {
  int64_t lanes;   // channels: 1, 4 or 16
  int64_t groups;  // of channels
  int64_t rows;
  int64_t columns;

  // The number of blocks of one image.
  [[nodiscard]] int64_t CountIn(const RoiRegion& region) const;
};

[[nodiscard]] RoiBlocks DivideIntoBlocks(const RoiAlign& roi, int64_t threads);

// The memory that the sums of a block need; it must start at a multiple of kRoiSumAlignment.
[[nodiscard]] uint64_t RoiSumBytes(const RoiBlocks& blocks);
inline constexpr size_t kRoiSumAlignment = 64;

// How many threads may work at once: so few that what all of them take is little beside the tensors.
[[nodiscard]] int64_t MostThreads(const RoiAlign& roi, const RoiBlocks& blocks);

struct RoiBlock {
  int64_t image;
  Range channels;
  Range rows;
  Range columns;
};

[[nodiscard]] RoiBlock BlockAt(const RoiAlign& roi, const RoiBlocks& blocks, const RoiRegion& region, int64_t number);

}  // namespace acl_host
