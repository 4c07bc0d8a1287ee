#include "blocks.h"

#include <algorithm>

#include "plan/tiles.h"

namespace acl_host {
namespace {

// Half of a usual second-level cache.
constexpr int64_t kBlockBytes = int64_t{512} << 10;

// Blocks per thread, so that threads finish together. Each block computes the column sums of the boxes that cross it
// again.
constexpr int64_t kBlocksPerThread = 4;
constexpr int64_t kLeastBlockRows = 16;

int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

int64_t RoiBlocks::CountIn(const RoiRegion& region) const {
  return groups * DivideUp(region.rows.size(), rows) * DivideUp(region.columns.size(), columns);
}

RoiBlocks DivideIntoBlocks(const RoiAlign& roi, int64_t threads) {
  const auto most_columns = [](int64_t lanes) { return kBlockBytes / (lanes * static_cast<int64_t>(sizeof(float))); };
  // Wide rows fill the vectors with few channels, and need less memory.
  int64_t lanes = 1;
  if (roi.channels > 1 && roi.width <= most_columns(4)) lanes = 4;
  if (roi.channels > 4 && roi.width <= most_columns(16)) lanes = 16;
  const int64_t columns = std::min(roi.width, most_columns(lanes));
  RoiBlocks blocks{lanes, DivideUp(roi.channels, lanes), 0, columns};
  const int64_t wanted = DivideUp(threads * kBlocksPerThread, roi.images * blocks.groups);
  const int64_t fair_rows = std::max(DivideUp(roi.height, wanted), kLeastBlockRows);
  blocks.rows = std::max<int64_t>(std::min({most_columns(lanes) / columns, fair_rows, roi.height}), 1);
  return blocks;
}

uint64_t RoiSumBytes(const RoiBlocks& blocks) {
  // Of a block, or in float64 of half a block or one cell.
  const uint64_t cells = std::max<uint64_t>(static_cast<uint64_t>(blocks.rows * blocks.columns), 2);
  const uint64_t bytes = cells * static_cast<uint64_t>(blocks.lanes) * sizeof(float);
  return (bytes + kRoiSumAlignment - 1) / kRoiSumAlignment * kRoiSumAlignment;
}

int64_t MostThreads(const RoiAlign& roi, const RoiBlocks& blocks) {
  // The sums, and the column sums of a row of bins.
  const auto bytes = static_cast<int64_t>(RoiSumBytes(blocks)) + blocks.columns * blocks.lanes * int64_t{sizeof(float)};
  const int64_t count = roi.images * blocks.CountIn({{0, 1}, {0, roi.height}, {0, roi.width}});
  return MostPieces({1, count, 1, 1}, {roi.tensor_bytes(), 1, bytes});
}

RoiBlock BlockAt(const RoiAlign& roi, const RoiBlocks& blocks, const RoiRegion& region, int64_t number) {
  const int64_t across = DivideUp(region.columns.size(), blocks.columns);
  const int64_t down = DivideUp(region.rows.size(), blocks.rows);
  const int64_t channel = number / (across * down) % blocks.groups * blocks.lanes;
  const int64_t row = region.rows.begin + number / across % down * blocks.rows;
  const int64_t column = region.columns.begin + number % across * blocks.columns;
  return {region.images.begin + number / blocks.CountIn(region),
          {channel, std::min(channel + blocks.lanes, roi.channels)},
          {row, std::min(row + blocks.rows, region.rows.end)},
          {column, std::min(column + blocks.columns, region.columns.end)}};
}

}  // namespace acl_host
