// Convolutions as sums over patches: what positions of a grid read of a tensor around them.
//
// A column is a position of an image, and a row is a channel and a tap, taps following one another. So the small and
// the big tensor are products of the weight and patches, and the weight is one of patches and the small tensor.
#pragma once

#include <array>
#include <cstdint>

#include "families/convolution/computation.h"
#include "tensors/axes.h"

namespace acl_host {

// Lines of tiles whose left panels remain in the cache.
inline constexpr int64_t kGroupRows = 96;
// The rows of patches that are packed as they are lie so far from one another that they do not evict one another.
inline constexpr int64_t kRowPitch = 272;

// Parts of equal size, or nearly, of at most so many.
[[nodiscard]] inline int64_t PartOf(int64_t count, int64_t most) {
  const int64_t parts = (count - 1) / most + 1;
  return (count - 1) / parts + 1;
}

// Position i reads with tap j the position i * step + first + j * spacing of the source, and zero outside of it.
struct GatherAxis {
  int64_t positions;
  int64_t source;
  int64_t step;
  int64_t first;
  int64_t spacing;
  int64_t taps;
  // In elements: along the source; and from one tap to the next in weight, and one position to the next in the result.
  int64_t source_stride;
  int64_t weight_stride;
  int64_t result_stride;
};

// In elements.
struct GatherStrides {
  int64_t first;  // the offset of the first element
  int64_t group;
  int64_t outer;  // of an image, or of a result's channel in weight
  int64_t channel;
};

struct Gather {
  aclDataType type;
  int64_t images;
  int64_t groups;
  int64_t channels;  // of a group of the source
  int64_t results;   // channels of a group of the result
  std::array<GatherAxis, kConvolvedAxes> axes;
  GatherStrides source;
  GatherStrides weight;
  GatherStrides result;

  [[nodiscard]] int64_t positions() const { return axes[0].positions * axes[1].positions * axes[2].positions; }
  [[nodiscard]] int64_t columns() const { return images * positions(); }
  [[nodiscard]] int64_t taps() const { return axes[0].taps * axes[1].taps * axes[2].taps; }
  [[nodiscard]] int64_t rows() const { return taps() * channels; }
  // Taps along each axis, among which are all that read the source for some columns.
  [[nodiscard]] std::array<Range, kConvolvedAxes> TapsOf(int64_t first_column, int64_t columns) const;
  // The same with some of the taps.
  [[nodiscard]] Gather WithTaps(const std::array<Range, kConvolvedAxes>& taps) const;
  // Whether rows that follow one another are side by side in weight.
  [[nodiscard]] bool has_rows_side_by_side() const {
    int64_t stride = 1;
    for (size_t i = kConvolvedAxes; i-- > 0;) {
      if (axes[i].taps != 1 && axes[i].weight_stride != stride) return false;
      stride *= axes[i].taps;
    }
    return channels == 1 || weight.channel == stride;
  }
  // Whether positions that follow one another are side by side in the result.
  [[nodiscard]] bool is_dense() const {
    int64_t stride = 1;
    for (size_t i = kConvolvedAxes; i-- > 0;) {
      if (axes[i].positions != 1 && axes[i].result_stride != stride) return false;
      stride *= axes[i].positions;
    }
    return true;
  }
};

// What the small tensor's positions read of the big one.
[[nodiscard]] Gather GatherOfSmall(const Convolution& convolution);

// What some of the big tensor's positions read of the small one. Along each axis these are the positions that differ by
// multiples of the stride, and are read by the same taps.
class PhasesOfBig {
 public:
  explicit PhasesOfBig(const Convolution& convolution);

  // Along all axes, no more than there are taps, nor than there are positions.
  [[nodiscard]] int64_t count() const { return counts_[0] * counts_[1] * counts_[2]; }
  // Whether every position is in a phase with taps.
  [[nodiscard]] bool are_all() const { return are_all_; }
  // It may have no positions.
  [[nodiscard]] Gather At(int64_t index) const;
  // One with as many taps and positions as any has.
  [[nodiscard]] Gather Largest() const;

 private:
  using Taps = std::array<int64_t, kConvolvedAxes>;

  [[nodiscard]] int64_t FirstTap(size_t i, int64_t index) const;
  [[nodiscard]] Gather WithFirstTaps(const Taps& first) const;

  Convolution convolution_;
  std::array<int64_t, kConvolvedAxes> counts_;
  bool are_all_ = true;
};

}  // namespace acl_host
