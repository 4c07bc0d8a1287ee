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

}  // namespace

RoiBands DivideIntoBands(const RoiAlign& roi, int64_t threads) {
  const auto fits = [&](int64_t lanes) {
    return roi.width <= kBandBytes / (lanes * static_cast<int64_t>(sizeof(float)));
  };
  // Wide rows fill the vectors with few channels, and need less memory.
  int64_t lanes = 1;
  if (roi.channels > 1 && fits(4)) lanes = 4;
  if (roi.channels > 4 && fits(16)) lanes = 16;
  RoiBands bands{lanes, DivideUp(roi.channels, lanes), 0, 0};
  const int64_t row_bytes = roi.width * lanes * static_cast<int64_t>(sizeof(float));
  const int64_t wanted = DivideUp(threads * kBandsPerThread, roi.images * bands.groups);
  const int64_t fair_rows = std::max(DivideUp(roi.height, wanted), kLowestBand);
  bands.rows = std::max<int64_t>(std::min({kBandBytes / row_bytes, fair_rows, roi.height}), 1);
  bands.bands = DivideUp(roi.height, bands.rows);
  return bands;
}

uint64_t RoiSumBytes(const RoiAlign& roi, const RoiBands& bands) {
  const auto bytes = static_cast<uint64_t>(bands.rows * roi.width * bands.lanes) * sizeof(float);
  return (bytes + kRoiSumAlignment - 1) / kRoiSumAlignment * kRoiSumAlignment;
}

RoiBand BandAt(const RoiAlign& roi, const RoiBands& bands, int64_t image, int64_t number) {
  const int64_t first_channel = number / bands.bands * bands.lanes;
  const int64_t first_row = number % bands.bands * bands.rows;
  return {image, first_channel, std::min(bands.lanes, roi.channels - first_channel), first_row,
          std::min(bands.rows, roi.height - first_row)};
}

}  // namespace acl_host
