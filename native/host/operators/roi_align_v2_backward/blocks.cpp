#include "blocks.h"

#include <algorithm>

namespace acl_host {
namespace {

// Half of a usual second-level cache.
constexpr int64_t kBlockBytes = int64_t{512} << 10;

// Blocks per thread, so that threads finish together. Each block computes the column sums of the boxes that cross it
// again.
constexpr int64_t kBlocksPerThread = 4;
constexpr int64_t kLeastBlockRows = 16;

int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The memory of all threads: so many bytes, and this part of the tensors' bytes.
constexpr int64_t kFreeBytes = int64_t{2} << 20;
constexpr int64_t kPartOfTensors = 8;

}  // namespace

RoiRegion WholeImages(const RoiAlign& roi, int64_t first_image, int64_t end_image) {
  return {first_image, end_image, 0, roi.height, 0, roi.width};
}

int64_t RoiBlocks::CountIn(const RoiRegion& region) const {
  return groups * DivideUp(region.bottom - region.top, rows) * DivideUp(region.right - region.left, columns);
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
  const int64_t most = (kFreeBytes + roi.tensor_bytes() / kPartOfTensors) / bytes;
  return std::clamp<int64_t>(most, 1, roi.images * blocks.CountIn(WholeImages(roi, 0, 1)));
}

RoiBlock BlockAt(const RoiAlign& roi, const RoiBlocks& blocks, const RoiRegion& region, int64_t number) {
  const int64_t across = DivideUp(region.right - region.left, blocks.columns);
  const int64_t down = DivideUp(region.bottom - region.top, blocks.rows);
  const int64_t first_channel = number / (across * down) % blocks.groups * blocks.lanes;
  const int64_t first_row = region.top + number / across % down * blocks.rows;
  const int64_t first_column = region.left + number % across * blocks.columns;
  return {region.first_image + number / blocks.CountIn(region), first_channel,
          std::min(blocks.lanes, roi.channels - first_channel), first_row,
          std::min(blocks.rows, region.bottom - first_row),     first_column,
          std::min(blocks.columns, region.right - first_column)};
}

}  // namespace acl_host
