// Where RoiAlign samples a box, and how much each sample takes from the cells around it.
//
// The two axes are independent: a sample's weight for a cell is the product of its weights for the cell's row and
// column. So each axis is summed over its own samples, which costs far less than visiting all samples of a bin.
//
// Coordinates are float32 and computed in the order of PyTorch's vision library, because a last bit decides whether a
// sample lies on the input and how many samples an adaptive bin has.
#ifndef ACL_HOST_ROI_SAMPLING_H_
#define ACL_HOST_ROI_SAMPLING_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

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

struct CellWeight {
  int64_t cell;
  double weight;
};

// For each bin of an axis, what its samples take from which cells.
class RoiWeights {
 public:
  // size: of the input along the axis.
  void Assign(const RoiAxis& axis, int64_t bins, int64_t size);

  [[nodiscard]] const std::vector<CellWeight>& OfBin(int64_t bin) const { return bins_[static_cast<size_t>(bin)]; }

  // All cells lie in [begin, end), which is empty if there are none.
  [[nodiscard]] int64_t cells_begin() const { return cells_begin_; }
  [[nodiscard]] int64_t cells_end() const { return cells_end_; }

 private:
  std::vector<std::vector<CellWeight>> bins_;
  int64_t cells_begin_ = 0;
  int64_t cells_end_ = 0;
};

}  // namespace acl_host

#endif  // ACL_HOST_ROI_SAMPLING_H_
