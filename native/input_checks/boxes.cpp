#include "boxes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "values.h"

namespace aclgrad {

namespace {

constexpr std::size_t kColumns = 5;

float Float16(uint16_t bits) {
  constexpr int kInfinite = 31;
  const int exponent = (bits >> 10) & kInfinite;
  const int digits = bits & 0x3FF;
  if (exponent == kInfinite) return std::numeric_limits<float>::quiet_NaN();  // or infinity: both are refused
  const float size = std::ldexp(static_cast<float>(exponent > 0 ? digits + 1024 : digits), std::max(exponent, 1) - 25);
  return bits >= 0x8000 ? -size : size;
}

// Throws InvalidValue for a box whose output a device leaves as it was.
void CheckWritten(std::size_t box, float image, const float (&sizes)[2], const RoiAlign& roi_align) {
  const std::string at = "has a box at row " + std::to_string(box);
  const auto images = static_cast<double>(*roi_align.images);
  if (!(image >= 0) || !(std::floor(static_cast<double>(image)) < images)) {
    throw InvalidValue(at + " of no image: there are " + std::to_string(*roi_align.images));
  }
  const bool adapts = roi_align.aligned && roi_align.sampling_ratio == 0;
  if (adapts && !(sizes[0] > 0 && sizes[1] > 0)) {
    throw InvalidValue(at + " without an extent, and samples that follow it");
  }
}

}  // namespace

double CountWork(const void* boxes, std::size_t count, const RoiAlign& roi_align, std::size_t item_bytes) {
  const auto number = [&](std::size_t index) {
    return item_bytes == sizeof(float) ? Load<float>(boxes, index) : Float16(Load<uint16_t>(boxes, index));
  };
  constexpr double kStepsPerAxisSample = 8;
  const float offset = roi_align.aligned ? 0.5F : 0.0F;
  double work = 0.0;
  for (std::size_t box = 0; box < count; ++box) {
    float corner[4];
    const float image = number(box * kColumns);
    bool finite = std::isfinite(image);
    for (std::size_t i = 0; i < 4; ++i) {
      corner[i] = number(box * kColumns + 1 + i) * roi_align.spatial_scale - offset;
      finite = finite && std::isfinite(corner[i]);
    }
    const float sizes[2] = {corner[3] - corner[1], corner[2] - corner[0]};
    if (!finite || !std::isfinite(sizes[0]) || !std::isfinite(sizes[1])) {
      throw InvalidValue("has a box at row " + std::to_string(box) + " that is not finite after scaling");
    }
    if (roi_align.images) CheckWritten(box, image, sizes, roi_align);
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
