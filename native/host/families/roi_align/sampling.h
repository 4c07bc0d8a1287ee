// The places where RoiAlign samples a box, and the weights of the cells around each sample.
//
// The two axes are independent: the weight of a cell is the product of the weights of its row and its column. So each
// axis is summed over its own samples, which costs far less than visiting all samples of a bin.
//
// Coordinates are float32 and computed in the same order as in torchvision, because the last bit decides whether a
// sample lies on the input and how many samples an adaptive bin has.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "tensors/axes.h"

namespace acl_host {

struct RoiAlign {
  int64_t images;
  int64_t channels;
  int64_t height;
  int64_t width;
  int64_t boxes;
  int64_t pooled_height;
  int64_t pooled_width;
  float spatial_scale;
  int32_t sampling_ratio;
  bool aligned;

  // Of gradOutput and the gradient.
  [[nodiscard]] int64_t tensor_bytes() const {
    return channels * (boxes * pooled_height * pooled_width + images * height * width) * int64_t{sizeof(float)};
  }
};

// One axis of a box.
struct RoiAxis {
  float start;      // of the first bin, in cells
  float bin;        // size of a bin; negative if the box ends before it starts
  int32_t samples;  // of a bin; 0 for an adaptive bin of no size
};

struct RoiBox {
  int64_t image;  // -1: the box contributes nothing
  RoiAxis rows;
  RoiAxis columns;
  float divisor;             // the samples of a bin, or 1
  int64_t samples_to_visit;  // of both axes and all bins
};

// coordinates: image id, x1, y1, x2, y2.
[[nodiscard]] RoiBox MakeRoiBox(const RoiAlign& roi, const std::array<float, 5>& coordinates);

// Some bins of an axis, and the cells of which their weights are wanted.
struct RoiPart {
  Range bins;
  Range cells;
};

// At most so many shares, see RoiWeights, but for boxes so large that float32 cannot count their cells.
[[nodiscard]] int64_t MostShares(const RoiAxis& axis, int64_t bins, int64_t size);

// Divides an axis into parts of about so many shares, in order; size is that of the input along the axis.
void ForParts(const RoiAxis& axis, int64_t bins, int64_t size, int64_t shares,
              const std::function<void(const RoiPart&)>& visit);

// For each bin of a part of an axis, the cells of its samples and their weights. Slots number the cells in the order of
// the samples, so that sums of distant cells lie side by side.
class RoiWeights {
 public:
  struct Share {
    int64_t slot;
    double weight;
  };
  struct Shares {
    const Share* first;
    const Share* last;

    [[nodiscard]] const Share* begin() const { return first; }
    [[nodiscard]] const Share* end() const { return last; }
    [[nodiscard]] bool empty() const { return first == last; }
  };

  // size: of the input along the axis.
  void Assign(const RoiAxis& axis, const RoiPart& part, int64_t size);

  // The bins of the part.
  [[nodiscard]] const Range& bins() const { return part_.bins; }
  [[nodiscard]] Shares OfBin(int64_t bin) const;
  [[nodiscard]] const std::vector<int64_t>& cells() const { return cells_; }  // by slot
  // From the first cell of all to the last; empty if there are none.
  [[nodiscard]] const Range& extent() const { return extent_; }

 private:
  void AddSample(float position, int64_t size);
  void Add(int64_t cell, double weight);
  [[nodiscard]] int64_t SlotOf(int64_t cell);

  RoiPart part_{};
  std::vector<Share> shares_;
  std::vector<size_t> bins_;  // the first share of each bin, and the end
  std::vector<int64_t> cells_;
  Range extent_{0, 0};
};

// A box of some image, with its weights. The first of an image's boxes says whether the image has long sums.
struct RoiWeighted {
  int64_t index;
  float divisor;
  bool long_sums;
  RoiWeights rows;
  RoiWeights columns;
};

}  // namespace acl_host
