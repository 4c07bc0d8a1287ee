// Rows to which others are added, in blocks of which a thread has the sums of some in its cache.
#pragma once

#include <algorithm>
#include <cstdint>

namespace acl_host {

// `count` indices of rows, each with a row of so many columns that is added. No size is 0.
struct RowBlocks {
  int64_t count;
  int64_t rows;
  int64_t columns;

  // The blocks are divided into tiles of columns, whose sums stay in the cache.
  static constexpr int64_t kTileElements = 65536;

  [[nodiscard]] int64_t tile_columns() const { return std::min(columns, kTileElements); }
  [[nodiscard]] int64_t tiles_across() const { return (columns - 1) / tile_columns() + 1; }
  [[nodiscard]] int64_t block_rows() const { return std::min(kTileElements / tile_columns(), rows); }
  [[nodiscard]] int64_t blocks() const { return (rows - 1) / block_rows() + 1; }

  // Of the indices, so many are ordered at a time, which takes little memory beside theirs; those of a single block
  // need no order. The numbers are the sizes of all blocks, and positions.
  [[nodiscard]] int64_t most_positions() const {
    constexpr int64_t kLeast = 131072;
    constexpr int64_t kPart = 16;
    return blocks() == 1 ? 0 : std::min(std::max(kLeast, count / kPart), count);
  }
  [[nodiscard]] int64_t numbers() const { return blocks() == 1 ? 0 : blocks() + most_positions(); }
};

}  // namespace acl_host
