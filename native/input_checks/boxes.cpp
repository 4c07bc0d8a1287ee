#include "boxes.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "values.h"

namespace aclgrad {

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
    // All cells between the first and the last touched one: a kernel passes over them even if it skips them.
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
