#include "families/roi_align/bands.h"

#include <algorithm>

namespace acl_host {
namespace {

// Half of a usual second-level cache.
constexpr int64_t kBandBytes = int64_t{512} << 10;

// Bands per thread, so that threads finish together. Each band spreads again the boxes that cross it.
constexpr int64_t kBandsPerThread = 4;
constexpr int64_t kLowestBand = 16;

int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The memory of all threads: so many bytes, and this part of the tensors' bytes.
constexpr int64_t kFreeBytes = int64_t{2} << 20;
constexpr int64_t kPartOfTensors = 8;

}  // namespace

RoiRegion WholeImages(const RoiAlign& roi, int64_t first_image, int64_t end_image) {
  return {first_image, end_image, 0, roi.height, 0, roi.width};
}

int64_t RoiBands::CountIn(const RoiRegion& region) const {
  return groups * DivideUp(region.bottom - region.top, rows) * DivideUp(region.right - region.left, columns);
}

RoiBands DivideIntoBands(const RoiAlign& roi, int64_t threads) {
  const auto most_columns = [](int64_t lanes) { return kBandBytes / (lanes * static_cast<int64_t>(sizeof(float))); };
  // Wide rows fill the vectors with few channels, and need less memory.
  int64_t lanes = 1;
  if (roi.channels > 1 && roi.width <= most_columns(4)) lanes = 4;
  if (roi.channels > 4 && roi.width <= most_columns(16)) lanes = 16;
  const int64_t columns = std::min(roi.width, most_columns(lanes));
  RoiBands bands{lanes, DivideUp(roi.channels, lanes), 0, columns};
  const int64_t wanted = DivideUp(threads * kBandsPerThread, roi.images * bands.groups);
  const int64_t fair_rows = std::max(DivideUp(roi.height, wanted), kLowestBand);
  bands.rows = std::max<int64_t>(std::min({most_columns(lanes) / columns, fair_rows, roi.height}), 1);
  return bands;
}

uint64_t RoiSumBytes(const RoiBands& bands) {
  const auto bytes = static_cast<uint64_t>(bands.rows * bands.columns * bands.lanes) * sizeof(float);
  return (bytes + kRoiSumAlignment - 1) / kRoiSumAlignment * kRoiSumAlignment;
}

int64_t MostThreads(const RoiAlign& roi, const RoiBands& bands) {
  // The sums, and a row of bins that is spread over the columns of a box.
  const auto bytes = static_cast<int64_t>(RoiSumBytes(bands)) + bands.columns * bands.lanes * int64_t{sizeof(float)};
  const int64_t most = (kFreeBytes + roi.tensor_bytes() / kPartOfTensors) / bytes;
  return std::clamp<int64_t>(most, 1, roi.images * bands.CountIn(WholeImages(roi, 0, 1)));
}

RoiBand BandAt(const RoiAlign& roi, const RoiBands& bands, const RoiRegion& region, int64_t number) {
  const int64_t across = DivideUp(region.right - region.left, bands.columns);
  const int64_t down = DivideUp(region.bottom - region.top, bands.rows);
  const int64_t first_channel = number / (across * down) % bands.groups * bands.lanes;
  const int64_t first_row = region.top + number / across % down * bands.rows;
  const int64_t first_column = region.left + number % across * bands.columns;
  return {region.first_image + number / bands.CountIn(region), first_channel,
          std::min(bands.lanes, roi.channels - first_channel), first_row,
          std::min(bands.rows, region.bottom - first_row),     first_column,
          std::min(bands.columns, region.right - first_column)};
}

}  // namespace acl_host
