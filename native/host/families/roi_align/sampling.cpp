#include "sampling.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace acl_host {
namespace {

constexpr float kTooManySamples = 2147483648.0F;  // 2^31

// Samples are in order, so an earlier cell is among the last few. If one is missed it is listed twice, which is
// harmless.
constexpr std::ptrdiff_t kNeighbours = 4;

// The centre of a sample, in cells. It is monotonic in sample, also after rounding.
float Position(const RoiAxis& axis, int64_t bin, int64_t sample) {
  const float offset = (static_cast<float>(sample) + 0.5F) * axis.bin / static_cast<float>(axis.samples);
  return axis.start + static_cast<float>(bin) * axis.bin + offset;
}

// The samples of a bin from the position low up to high. Uses a binary search, because a huge box has most of its
// samples elsewhere.
Range SamplesWithin(const RoiAxis& axis, int64_t bin, float low, float high) {
  const auto first_where = [&](const auto& holds) {
    int64_t least = 0;
    int64_t most = axis.samples;
    while (least < most) {
      const int64_t middle = least + (most - least) / 2;
      if (holds(Position(axis, bin, middle))) {
        most = middle;
      } else {
        least = middle + 1;
      }
    }
    return least;
  };
  const auto before = [=](float position) { return position < low; };
  const auto behind = [=](float position) { return position > high; };
  if (axis.bin >= 0) return {first_where([&](float position) { return !before(position); }), first_where(behind)};
  return {first_where([&](float position) { return !behind(position); }), first_where(before)};
}

// The samples that lie on the input, or up to one cell beside it.
int64_t SamplesToVisit(const RoiAxis& axis, int64_t bins, int64_t size) {
  int64_t samples = 0;
  for (int64_t bin = 0; bin < bins; ++bin) {
    samples += SamplesWithin(axis, bin, -1.0F, static_cast<float>(size)).size();
  }
  return samples;
}

// False if the number of samples is more than a device can count.
bool MakeAxis(const RoiAlign& roi, float low, float high, int64_t bins, RoiAxis& axis) {
  const float offset = roi.aligned ? 0.5F : 0.0F;
  const float start = low * roi.spatial_scale - offset;
  const float end = high * roi.spatial_scale - offset;
  const float size = roi.aligned ? end - start : std::max(end - start, 1.0F);
  const float bin = size / static_cast<float>(bins);
  if (!std::isfinite(start) || !std::isfinite(size)) return false;
  axis = {start, bin, roi.sampling_ratio};
  if (roi.sampling_ratio == 0) {
    const float samples = std::max(std::ceil(bin), 0.0F);
    if (samples >= kTooManySamples) return false;
    axis.samples = static_cast<int32_t>(samples);
  }
  return true;
}

}  // namespace

RoiBox MakeRoiBox(const RoiAlign& roi, const std::array<float, 5>& coordinates) {
  RoiBox box{-1, {}, {}, 1.0F, 0};
  const float image = std::floor(coordinates[0]);
  const bool known_image = image >= 0 && image < static_cast<float>(roi.images);  // false for NaN
  // Skips boxes of unknown images, as a device does. Also skips boxes whose scaled coordinates are not finite, or whose
  // bins have more than 2^31 samples: their result on a device is undefined.
  if (!known_image || !MakeAxis(roi, coordinates[1], coordinates[3], roi.pooled_width, box.columns) ||
      !MakeAxis(roi, coordinates[2], coordinates[4], roi.pooled_height, box.rows)) {
    return box;
  }
  // An adaptive box without extent along one axis has no samples at all.
  if (box.rows.samples == 0 || box.columns.samples == 0) return box;
  box.image = static_cast<int64_t>(image);
  box.divisor = std::max(static_cast<float>(int64_t{box.rows.samples} * box.columns.samples), 1.0F);
  box.samples_to_visit = SamplesToVisit(box.rows, roi.pooled_height, roi.height) +
                         SamplesToVisit(box.columns, roi.pooled_width, roi.width);
  return box;
}

int64_t MostShares(const RoiAxis& axis, int64_t bins, int64_t size) {
  // The bins of an axis do not overlap; each end of a bin reaches two cells.
  const float cells = std::min(std::abs(axis.bin) * static_cast<float>(bins), static_cast<float>(size));
  const __int128 of_samples = static_cast<__int128>(2) * axis.samples * bins;
  return static_cast<int64_t>(std::min<__int128>(of_samples, static_cast<int64_t>(cells) + int64_t{4} * bins));
}

void ForParts(const RoiAxis& axis, int64_t bins, int64_t size, int64_t shares,
              const std::function<void(const RoiPart&)>& visit) {
  const int64_t of_bin = std::max<int64_t>(MostShares(axis, 1, size), 1);
  if (of_bin <= shares) {
    const int64_t step = shares / of_bin;
    for (int64_t bin = 0; bin < bins; bin += step) visit({{bin, std::min(bin + step, bins)}, {0, size}});
    return;
  }
  const auto last_cell = static_cast<float>(size);
  for (int64_t bin = 0; bin < bins; ++bin) {
    const float first = std::clamp(Position(axis, bin, 0), 0.0F, last_cell);
    const float last = std::clamp(Position(axis, bin, axis.samples - 1), 0.0F, last_cell);
    const int64_t end = std::min(static_cast<int64_t>(std::max(first, last)) + 2, size);
    int64_t cell = std::min(static_cast<int64_t>(std::min(first, last)), size - 1);
    for (; cell < end; cell += shares) visit({{bin, bin + 1}, {cell, std::min(cell + shares, end)}});
  }
}

void RoiWeights::Assign(const RoiAxis& axis, const RoiPart& part, int64_t size) {
  part_ = part;
  shares_.clear();
  cells_.clear();
  bins_.clear();
  bins_.reserve(static_cast<size_t>(part.bins.size()) + 1);
  // The samples of these cells, and maybe a few more, because a float may not have the number of a cell.
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float low =
      part.cells.begin == 0 ? -1.0F : std::nextafter(static_cast<float>(part.cells.begin - 1), -kInfinity);
  const float high =
      part.cells.end == size ? static_cast<float>(size) : std::nextafter(static_cast<float>(part.cells.end), kInfinity);
  for (int64_t bin = part.bins.begin; bin < part.bins.end; ++bin) {
    bins_.push_back(shares_.size());
    const Range range = SamplesWithin(axis, bin, low, high);
    for (int64_t sample = range.begin; sample < range.end; ++sample) AddSample(Position(axis, bin, sample), size);
  }
  bins_.push_back(shares_.size());
  extent_ = {size, 0};
  for (const int64_t cell : cells_) extent_ = {std::min(extent_.begin, cell), std::max(extent_.end, cell + 1)};
}

RoiWeights::Shares RoiWeights::OfBin(int64_t bin) const {
  const auto index = static_cast<size_t>(bin - part_.bins.begin);
  return {shares_.data() + bins_[index], shares_.data() + bins_[index + 1]};
}

// Interpolates linearly between the two cells around the position; the outermost half cells repeat the border.
void RoiWeights::AddSample(float position, int64_t size) {
  position = std::max(position, 0.0F);
  const auto low = static_cast<int64_t>(position);
  if (low >= size - 1) return Add(size - 1, 1.0);
  const float high_weight = position - static_cast<float>(low);
  Add(low, 1.0F - high_weight);
  Add(low + 1, high_weight);
}

void RoiWeights::Add(int64_t cell, double weight) {
  if (weight == 0 || !part_.cells.Contains(cell)) return;
  const int64_t slot = SlotOf(cell);
  const auto bin_shares = static_cast<std::ptrdiff_t>(shares_.size() - bins_.back());
  const auto same = [slot](const Share& share) { return share.slot == slot; };
  const auto found = std::find_if(shares_.end() - std::min(bin_shares, kNeighbours), shares_.end(), same);
  if (found != shares_.end()) {
    found->weight += weight;
  } else {
    shares_.push_back({slot, weight});
  }
}

int64_t RoiWeights::SlotOf(int64_t cell) {
  const auto known = static_cast<std::ptrdiff_t>(cells_.size());
  const auto found = std::find(cells_.end() - std::min(known, kNeighbours), cells_.end(), cell);
  const int64_t slot = found - cells_.begin();
  if (found == cells_.end()) cells_.push_back(cell);
  return slot;
}

}  // namespace acl_host
