#include "values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

namespace aclgrad {
namespace {

template <typename T>
T Load(const void* data, std::size_t index) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(data) + index * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

void CheckIndices(const void* indices, std::size_t count, int64_t bound) {
  constexpr std::size_t kBlock = 4096;
  const auto is_bad = [bound](int64_t index) { return static_cast<uint64_t>(index) >= static_cast<uint64_t>(bound); };
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t end = std::min(count, begin + kBlock);
    // Without a branch on the way, so that the compiler makes vectors of it; the position is found afterwards.
    bool any_bad = false;
    for (std::size_t i = begin; i < end; ++i) any_bad |= is_bad(Load<int64_t>(indices, i));
    if (!any_bad) continue;
    std::size_t first = begin;
    while (!is_bad(Load<int64_t>(indices, first))) ++first;
    throw InvalidValue("has " + std::to_string(Load<int64_t>(indices, first)) + " at position " +
                       std::to_string(first) + ", outside [0, " + std::to_string(bound) + ")");
  }
}

double CountWork(const void* boxes, std::size_t count, const RoiAlign& roi_align) {
  constexpr std::size_t kColumns = 5;
  constexpr double kStepsPerAxisSample = 8;
  const float offset = roi_align.aligned ? 0.5F : 0.0F;
  double work = 0.0;
  for (std::size_t box = 0; box < count; ++box) {
    float corner[4];
    bool finite = std::isfinite(Load<float>(boxes, box * kColumns));
    for (std::size_t i = 0; i < 4; ++i) {
      corner[i] = Load<float>(boxes, box * kColumns + 1 + i) * roi_align.spatial_scale - offset;
      finite = finite && std::isfinite(corner[i]);
    }
    const float sizes[2] = {corner[3] - corner[1], corner[2] - corner[0]};
    if (!finite || !std::isfinite(sizes[0]) || !std::isfinite(sizes[1])) {
      throw InvalidValue("has a box at row " + std::to_string(box) + " that is not finite after scaling");
    }
    // Samples of all bins along one axis.
    const auto samples = [&](float size, int64_t pooled) {
      if (roi_align.sampling_ratio > 0)
        return static_cast<double>(roi_align.sampling_ratio) * static_cast<double>(pooled);
      const float extent = roi_align.aligned ? size : std::max(size, 1.0F);
      return std::max(0.0, static_cast<double>(std::ceil(extent / static_cast<float>(pooled)))) *
             static_cast<double>(pooled);
    };
    const double rows = samples(sizes[0], roi_align.pooled_height);
    const double columns = samples(sizes[1], roi_align.pooled_width);
    if (rows == 0 || columns == 0) continue;
    // Cells between the first and the last that the box touches, which are passed over whether or not they are touched.
    const double row_span = std::min(2 * rows, static_cast<double>(roi_align.height));
    const double column_span =
        std::min(std::abs(static_cast<double>(sizes[1])) + 3, static_cast<double>(roi_align.width));
    const double spread = (row_span + static_cast<double>(roi_align.pooled_height)) * column_span;
    work +=
        static_cast<double>(roi_align.channels) * (rows * columns + spread) + kStepsPerAxisSample * (rows + columns);
  }
  return work;
}

}  // namespace aclgrad
