#include "batches.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "plan/scratch_slots.h"

namespace acl_host {
namespace {

constexpr int64_t kElementsPerPiece = 32768;
constexpr int64_t kBoxesPerPiece = 256;

// The most shares of a batch of boxes, whose weights are in memory at a time; 16 bytes each.
constexpr int64_t kMostShares = int64_t{1} << 18;

// Leaves out boxes of unknown images.
void OrderByImage(const RoiAlign& roi, const RoiScratch& scratch) {
  int64_t* const begins = scratch.image_begins;
  std::fill(begins, begins + roi.images + 1, 0);
  for (int64_t index = 0; index < roi.boxes; ++index) {
    const int64_t image = scratch.boxes[index].image;
    if (image >= 0) ++begins[image + 1];
  }
  std::partial_sum(begins, begins + roi.images + 1, begins);
  for (int64_t index = 0; index < roi.boxes; ++index) {
    const int64_t image = scratch.boxes[index].image;
    if (image >= 0) scratch.order[begins[image]++] = index;
  }
  // Each begin has moved on to the next one.
  std::copy_backward(begins, begins + roi.images, begins + roi.images + 1);
  begins[0] = 0;
}

// An upper bound, except for boxes so large that float32 cannot count their cells.
int64_t SharesOf(const RoiAlign& roi, const RoiBox& box) {
  const int64_t bins = roi.pooled_height + roi.pooled_width;
  return bins + std::min(2 * box.samples_to_visit, roi.height + roi.width + 2 * bins);
}

class BoxAdder {
 public:
  BoxAdder(const RoiAlign& roi, const RoiBands& bands, int64_t slots, RoiAdd add, const Launch& launch,
           const RoiScratch& scratch)
      : roi_(roi),
        bands_(bands),
        launch_(launch),
        scratch_(scratch),
        slots_(scratch.sums, slots, RoiSumBytes(roi, bands)),
        add_(add) {}

  // Adds boxes in batches, because the weights of all boxes may need too much memory.
  void AddAll() {
    const int64_t count = scratch_.image_begins[roi_.images];
    int64_t image = 0;
    int64_t begin = 0;
    do {
      const int64_t end = EndOfBatch(begin, count);
      Weigh(begin, end);
      // The image of the next batch's first box: it may be the last image of this batch.
      const int64_t next_image = end == count ? roi_.images : ImageAt(end);
      const bool divided = end < count && scratch_.image_begins[next_image] < end;
      AddBatch(begin, end, image, divided ? next_image + 1 : next_image);
      image = next_image;
      begin = end;
    } while (image < roi_.images);
  }

 private:
  [[nodiscard]] const RoiBox& BoxAt(int64_t position) const { return scratch_.boxes[scratch_.order[position]]; }
  [[nodiscard]] int64_t ImageAt(int64_t position) const { return BoxAt(position).image; }

  [[nodiscard]] int64_t EndOfBatch(int64_t begin, int64_t count) const {
    int64_t shares = 0;
    int64_t end = begin;
    while (end < count) {
      shares += SharesOf(roi_, BoxAt(end));
      if (shares > kMostShares && end > begin) break;
      ++end;
    }
    return end;
  }

  void Weigh(int64_t begin, int64_t end) {
    weighted_.resize(static_cast<size_t>(end - begin));
    launch_.pool.ParallelFor(end - begin, kBoxesPerPiece, [&](int64_t first, int64_t last) {
      for (int64_t each = first; each < last; ++each) {
        const RoiBox& box = BoxAt(begin + each);
        RoiWeighted& weighted = weighted_[static_cast<size_t>(each)];
        weighted.index = scratch_.order[begin + each];
        weighted.divisor = box.divisor;
        weighted.rows.Assign(box.rows, roi_.pooled_height, roi_.height);
        weighted.columns.Assign(box.columns, roi_.pooled_width, roi_.width);
      }
    });
  }

  void AddBatch(int64_t begin, int64_t end, int64_t first_image, int64_t last_image) {
    const RoiPlanes planes{roi_, launch_.inputs[0], launch_.outputs[0]};
    const int64_t bands = (last_image - first_image) * bands_.per_image();
    const int64_t elements = roi_.channels * (roi_.height * roi_.width * (last_image - first_image) +
                                              roi_.pooled_height * roi_.pooled_width * (end - begin));
    launch_.pool.ParallelFor(bands, kElementsPerPiece / (elements / bands + 1) + 1, [&](int64_t first, int64_t last) {
      const ScratchSlots::Lease sums(slots_);
      for (int64_t number = first; number < last; ++number) {
        const int64_t image = first_image + number / bands_.per_image();
        const RoiBand band = BandAt(roi_, bands_, image, number % bands_.per_image());
        const int64_t image_begin = scratch_.image_begins[image];
        const int64_t boxes_begin = std::max(image_begin, begin) - begin;
        const int64_t boxes_end = std::min(scratch_.image_begins[image + 1], end) - begin;
        add_(planes, band, bands_.lanes, sums.memory(), weighted_.data() + boxes_begin, weighted_.data() + boxes_end,
             image_begin >= begin);
      }
    });
  }

  const RoiAlign& roi_;
  const RoiBands& bands_;
  const Launch& launch_;
  const RoiScratch& scratch_;
  ScratchSlots slots_;
  const RoiAdd add_;
  std::vector<RoiWeighted> weighted_;
};

}  // namespace

void AddRoiBoxes(const RoiAlign& roi, const RoiBands& bands, int64_t slots, RoiAdd add, const Launch& launch,
                 const RoiScratch& scratch) {
  OrderByImage(roi, scratch);
  BoxAdder(roi, bands, slots, add, launch, scratch).AddAll();
}

}  // namespace acl_host
