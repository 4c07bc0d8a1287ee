// Adds boxes to the planes of RoiAlign's gradient, a band of rows and a few channels at a time.
//
// Weights and cells of a box are the same for all channels. So the sums of a band hold the channels of a cell side by
// side, and one vector operation adds to a cell in all of them. A band is small enough to stay in the cache of a core
// while all boxes are added to it, and is then written as rows of planes.
//
// A cell belongs to one band and is summed in the order of the boxes, so neither the number of threads nor the division
// into bands changes a bit of the result.
#ifndef ACL_HOST_ROI_PLANES_H_
#define ACL_HOST_ROI_PLANES_H_

#include <cstddef>
#include <cstdint>

#include "roi_sampling.h"

namespace acl_host {

// How the planes of an image are divided.
struct RoiBands {
  int64_t lanes;   // channels of a band: 1, 4 or 16
  int64_t groups;  // of channels
  int64_t rows;    // of a band; the last one may have fewer
  int64_t bands;   // of a plane

  [[nodiscard]] int64_t per_image() const { return groups * bands; }
};

[[nodiscard]] RoiBands DivideIntoBands(const RoiAlign& roi, int64_t threads);

// The memory that the sums of a band need; it has to start at a multiple of kRoiSumAlignment.
[[nodiscard]] uint64_t RoiSumBytes(const RoiAlign& roi, const RoiBands& bands);
inline constexpr size_t kRoiSumAlignment = 64;

// A box of some image, with its weights.
struct RoiWeighted {
  int64_t index;
  float divisor;
  RoiWeights rows;
  RoiWeights columns;
};

struct RoiBand {
  int64_t image;
  int64_t first_channel;
  int64_t channels;
  int64_t first_row;
  int64_t rows;
};

[[nodiscard]] RoiBand BandAt(const RoiAlign& roi, const RoiBands& bands, int64_t image, int64_t number);

struct RoiPlanes {
  const RoiAlign& roi;
  const std::byte* grad_output;
  std::byte* grad_input;
};

// Adds boxes, all of the band's image, to one band. A fresh band has no values yet; any other is added to.
void AddToBand(const RoiPlanes& planes, const RoiBand& band, int64_t lanes, std::byte* sums, const RoiWeighted* boxes,
               const RoiWeighted* boxes_end, bool fresh);

}  // namespace acl_host

#endif  // ACL_HOST_ROI_PLANES_H_
