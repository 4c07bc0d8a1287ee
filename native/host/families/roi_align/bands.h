// Divides RoiAlign's gradient into bands of some rows and channels. A band is so small that its sums stay in the cache
// of a core while all boxes of its image are added.
//
// A cell belongs to one band and is summed in the order of the boxes, so the result does not depend on the number of
// threads or the division, in any bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "families/roi_align/sampling.h"

namespace acl_host {

struct RoiBands {
  int64_t lanes;   // channels of a band: 1, 4 or 16
  int64_t groups;  // of channels
  int64_t rows;    // of a band; the last one may have fewer
  int64_t bands;   // of a plane

  [[nodiscard]] int64_t per_image() const { return groups * bands; }
};

[[nodiscard]] RoiBands DivideIntoBands(const RoiAlign& roi, int64_t threads);

// The memory that the sums of a band need; it must start at a multiple of kRoiSumAlignment.
[[nodiscard]] uint64_t RoiSumBytes(const RoiAlign& roi, const RoiBands& bands);
inline constexpr size_t kRoiSumAlignment = 64;

struct RoiBand {
  int64_t image;
  int64_t first_channel;
  int64_t channels;
  int64_t first_row;
  int64_t rows;
};

[[nodiscard]] RoiBand BandAt(const RoiAlign& roi, const RoiBands& bands, int64_t image, int64_t number);

}  // namespace acl_host
