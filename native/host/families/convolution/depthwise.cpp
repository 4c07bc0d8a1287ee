#include "families/convolution/depthwise.h"

#include <algorithm>

#include "device/thread_pool.h"
#include "tensors/elements.h"
#include "tensors/sums.h"

namespace acl_host {
namespace {

// More channels of the small tensor are better multiplied as matrices.
constexpr int64_t kMostMultiplier = 16;
// Others are seldom, and not worth their tables.
constexpr int64_t kMostStride = 8;
constexpr int64_t kMostPhases = 64;
constexpr int64_t kMostTaps = 4096;
// What is packed of a box fits in a cache, and in any case in this.
constexpr int64_t kBoxFloats = 12288;
constexpr int64_t kMostFloats = 65536;
// Slots take this much and a quarter of the tensors.
constexpr int64_t kFreeBytes = int64_t{2} << 20;
// Few channels are work for many threads if each is made in parts.
constexpr int64_t kFewChannels = 64;
// A vector behind each row may be read or written.
constexpr int64_t kBehind = kMostLanes;
// Planes are small up to these results, and rows as long as this.
constexpr int64_t kSmallPlane = 1024;
constexpr int64_t kShortRow = 32;

int64_t CeilOf(int64_t count, int64_t of) { return (count + of - 1) / of; }
int64_t RoundUp(int64_t count) { return CeilOf(count, kBehind) * kBehind; }

// What a tap reads: the source from an offset on, of which each result is source_step further.
struct AxisTap {
  int64_t kernel;
  int64_t offset;
};
using AxisPhase = std::vector<AxisTap>;

struct TappedAxis {
  DepthwiseAxis axis;
  std::vector<AxisPhase> phases;
};

TappedAxis AxisOfSmall(const ConvolvedAxis& axis) {
  TappedAxis tapped{{axis.small, 1, axis.big, axis.stride, 0, {}, 0, 0, 0}, {{}}};
  for (int64_t k = 0; k < axis.kernel; ++k) tapped.phases[0].push_back({k, k * axis.dilation - axis.padding});
  return tapped;
}

TappedAxis AxisOfBig(const ConvolvedAxis& axis) {
  TappedAxis tapped{{axis.big, axis.stride, axis.small, 1, 0, {}, 0, 0, 0}, {}};
  for (int64_t first = 0; first < std::min(axis.stride, axis.big); ++first) {
    AxisPhase& phase = tapped.phases.emplace_back();
    for (int64_t k = 0; k < axis.kernel; ++k) {
      const int64_t distance = first + axis.padding - k * axis.dilation;
      if (distance % axis.stride == 0) phase.push_back({k, distance / axis.stride});
    }
  }
  return tapped;
}

// Offsets are from source_first on, and fall into residues.
void Arrange(TappedAxis& tapped) {
  DepthwiseAxis& axis = tapped.axis;
  int64_t first = INT64_MAX;
  for (const AxisPhase& phase : tapped.phases) {
    for (const AxisTap& tap : phase) first = std::min(first, tap.offset);
  }
  axis.source_first = first == INT64_MAX ? 0 : first;
  for (AxisPhase& phase : tapped.phases) {
    for (AxisTap& tap : phase) {
      tap.offset -= axis.source_first;
      axis.more = std::max(axis.more, tap.offset / axis.source_step);
      axis.residues.push_back(tap.offset % axis.source_step);
    }
  }
  std::sort(axis.residues.begin(), axis.residues.end());
  axis.residues.erase(std::unique(axis.residues.begin(), axis.residues.end()), axis.residues.end());
  axis.box = CeilOf(axis.results, axis.step);
}

int64_t FloatsOf(const Depthwise& depthwise) {
  int64_t floats = depthwise.sources;
  for (const DepthwiseAxis& axis : depthwise.axes) {
    floats *= std::max<int64_t>(static_cast<int64_t>(axis.residues.size()), 1) * std::min(axis.packed(), kMostFloats);
    floats = std::min(floats, kMostFloats + 1);
  }
  return floats;
}

// Halves boxes until they fit, rows at last.
bool CutIntoBoxes(Depthwise& depthwise) {
  for (DepthwiseAxis& axis : depthwise.axes) {
    const int64_t least = &axis == &depthwise.axes.back() ? 64 : 1;
    const int64_t all = axis.box;
    while (FloatsOf(depthwise) > kBoxFloats && axis.box > least && axis.box > axis.more / 2) {
      axis.box = CeilOf(axis.box, 2);
    }
    axis.boxes = CeilOf(all, axis.box);
    axis.box = CeilOf(all, axis.boxes);
  }
  return FloatsOf(depthwise) <= kMostFloats;
}

// Where a tap reads what is packed along an axis.
int64_t PackedOffset(const DepthwiseAxis& axis, const AxisTap& tap, int64_t residue_stride, int64_t stride) {
  const auto found = std::find(axis.residues.begin(), axis.residues.end(), tap.offset % axis.source_step);
  return (found - axis.residues.begin()) * residue_stride + tap.offset / axis.source_step * stride;
}

void AddPhases(Depthwise& depthwise, const std::array<TappedAxis, kConvolvedAxes>& tapped,
               const ConvolvedStrides& weight) {
  const auto& axes = depthwise.axes;
  const int64_t along_x = depthwise.residue_floats;
  const auto x_residues = static_cast<int64_t>(axes[2].residues.size());
  const int64_t along_y = along_x * x_residues;
  const int64_t along_z = along_y * static_cast<int64_t>(axes[1].residues.size());
  for (size_t z = 0; z < tapped[0].phases.size(); ++z) {
    for (size_t y = 0; y < tapped[1].phases.size(); ++y) {
      for (size_t x = 0; x < tapped[2].phases.size(); ++x) {
        DepthwisePhase& phase = depthwise.phases.emplace_back();
        phase.first = {static_cast<int64_t>(z), static_cast<int64_t>(y), static_cast<int64_t>(x)};
        for (int64_t source = 0; source < depthwise.sources; ++source) {
          for (const AxisTap& of_z : tapped[0].phases[z]) {
            const int64_t z_offset = PackedOffset(axes[0], of_z, along_z, depthwise.plane_floats);
            for (const AxisTap& of_y : tapped[1].phases[y]) {
              const int64_t y_offset = PackedOffset(axes[1], of_y, along_y, depthwise.row_floats());
              for (const AxisTap& of_x : tapped[2].phases[x]) {
                phase.taps.push_back(
                    {source * weight.outer + of_z.kernel * weight.axes[0] + of_y.kernel * weight.axes[1] +
                         of_x.kernel * weight.axes[2],
                     source * depthwise.source_floats + z_offset + y_offset + PackedOffset(axes[2], of_x, along_x, 1)});
              }
            }
          }
        }
      }
    }
  }
}

double BytesOf(const Convolution& convolution) {
  auto small = static_cast<double>(convolution.small_channels);
  double big = 1;
  for (const ConvolvedAxis& axis : convolution.axes) {
    small *= static_cast<double>(axis.small);
    big *= static_cast<double>(axis.big);
  }
  return (small + big) * static_cast<double>(convolution.images) * static_cast<double>(convolution.groups) *
         static_cast<double>(aclDataTypeSize(convolution.type));
}

bool IsSideBySide(const Convolution& convolution, const Depthwise& depthwise) {
  if (convolution.groups < kMostLanes || convolution.small_channels > 1 || depthwise.boxes() > 1) return false;
  return depthwise.results() <= kSmallPlane && depthwise.axes[2].results <= kShortRow &&
         depthwise.source_floats <= 4 * kSmallPlane && depthwise.taps <= kMostFloatAdditions;
}

void MeasureSlot(const Convolution& convolution, Depthwise& depthwise) {
  const auto& axes = depthwise.axes;
  depthwise.is_side_by_side = IsSideBySide(convolution, depthwise);
  if (depthwise.is_side_by_side) {
    // Both have room for a whole plane of the source or of results.
    const int64_t source = axes[0].source * axes[1].source * axes[2].source;
    depthwise.packed_floats = depthwise.source_floats * kMostLanes;
    depthwise.result_floats = RoundUp(std::max(source, depthwise.results())) * kMostLanes;
    depthwise.more_floats = RoundUp(depthwise.results()) * kMostLanes;
    depthwise.number_floats = depthwise.taps * kMostLanes;
    return;
  }
  depthwise.packed_floats = RoundUp(depthwise.source_floats * depthwise.sources);
  const int64_t phases = std::min(axes[2].step, axes[2].results);
  depthwise.result_floats = RoundUp(depthwise.row_floats() * axes[1].box + kBehind) * phases;
  depthwise.number_floats = RoundUp(depthwise.taps * depthwise.sources);
  // A row of the source or of results, before it is packed or rounded.
  const int64_t row = std::max(axes[2].packed() * axes[2].source_step, axes[2].box * axes[2].step);
  depthwise.more_floats = RoundUp(row + 2 * kBehind);
}

void SetSlots(const Convolution& convolution, Depthwise& depthwise, int64_t threads) {
  const auto least = static_cast<double>(kFreeBytes) + BytesOf(convolution) / 4;
  const auto slot_bytes = static_cast<double>(depthwise.slot_floats()) * sizeof(float);
  depthwise.slots = std::clamp<int64_t>(static_cast<int64_t>(std::min(least / slot_bytes, 1e6)), 1, threads);
}

using AxisOf = TappedAxis (*)(const ConvolvedAxis& axis);

std::optional<Depthwise> MakeDepthwise(const Convolution& convolution, AxisOf axis_of, int64_t sources,
                                       int64_t threads) {
  if (convolution.big_channels != 1 || convolution.groups == 1) return {};
  if (convolution.small_channels > kMostMultiplier) return {};
  Depthwise depthwise{};
  depthwise.sources = sources;
  depthwise.taps = 1;
  int64_t phases = 1;
  for (const ConvolvedAxis& axis : convolution.axes) {
    if (axis.stride > kMostStride || axis.kernel > kMostTaps) return {};
    depthwise.taps *= axis.kernel;
    phases *= axis.stride;
    if (depthwise.taps > kMostTaps || phases > kMostPhases) return {};
  }
  std::array<TappedAxis, kConvolvedAxes> tapped;
  for (size_t i = 0; i < kConvolvedAxes; ++i) {
    tapped[i] = axis_of(convolution.axes[i]);
    Arrange(tapped[i]);
    depthwise.axes[i] = tapped[i].axis;
  }
  if (!CutIntoBoxes(depthwise)) return {};
  const auto& axes = depthwise.axes;
  depthwise.plane_floats = depthwise.row_floats() * axes[1].packed();
  depthwise.residue_floats = depthwise.plane_floats * axes[0].packed() + kBehind;
  depthwise.source_floats = depthwise.residue_floats;
  for (const DepthwiseAxis& axis : axes) depthwise.source_floats *= static_cast<int64_t>(axis.residues.size());
  AddPhases(depthwise, tapped, convolution.weight);
  MeasureSlot(convolution, depthwise);
  depthwise.parts = 1;
  SetSlots(convolution, depthwise, threads);
  return depthwise;
}

}  // namespace

uint64_t Depthwise::scratch_bytes(int64_t channels) const {
  const int64_t sums = parts > 1 ? parts * channels * taps : 0;
  return static_cast<uint64_t>(slots * slot_floats()) * sizeof(float) + static_cast<uint64_t>(sums) * sizeof(double) +
         2 * kDepthwiseAlignment;
}

std::optional<Depthwise> DepthwiseOfBig(const Convolution& convolution, int64_t threads) {
  return MakeDepthwise(convolution, AxisOfBig, convolution.small_channels, threads);
}

std::optional<Depthwise> DepthwiseOfSmall(const Convolution& convolution, int64_t threads) {
  return MakeDepthwise(convolution, AxisOfSmall, 1, threads);
}

std::optional<Depthwise> DepthwiseOfWeight(const Convolution& convolution, int64_t threads) {
  std::optional<Depthwise> depthwise = MakeDepthwise(convolution, AxisOfSmall, 1, threads);
  if (!depthwise) return {};
  // Sums of all lanes in float32, and those in float64: of each lane, or one.
  depthwise->number_floats = RoundUp(depthwise->taps * (depthwise->is_side_by_side ? 3 * kMostLanes : kMostLanes + 2));
  SetSlots(convolution, *depthwise, threads);
  const int64_t channels = convolution.groups * convolution.small_channels;
  const int64_t made = depthwise->is_side_by_side ? CeilOf(channels, kMostLanes) : channels;
  const auto units = static_cast<double>(convolution.images) * static_cast<double>(depthwise->boxes());
  depthwise->parts = static_cast<int64_t>(std::min(units, static_cast<double>(CeilOf(kFewChannels, made))));
  return depthwise;
}

}  // namespace acl_host
