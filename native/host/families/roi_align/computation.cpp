#include "computation.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "block_sum.h"
#include "errors/exceptions.h"
#include "plan/scratch_slots.h"
#include "tensors/elements.h"
#include "tensors/sums.h"

namespace acl_host {
namespace {

constexpr int64_t kBoxesPerPiece = 256;
constexpr int64_t kCoordinates = 5;

// With more samples a device would exceed its time limit, and a processor would take minutes.
constexpr int64_t kMostSamples = int64_t{1} << 31;

// The weights that are in memory at a time: so many bytes, and this part of the tensors' bytes; of one image, this part
// of the image's bytes.
constexpr int64_t kWeightBytes = int64_t{1} << 20;
constexpr int64_t kPartOfTensors = 16;
// What they take about: for each box, for each bin, and for each share with its cell, while their arrays grow.
constexpr int64_t kBytesOfBox = 512;
constexpr int64_t kBytesOfBin = 8;
constexpr int64_t kBytesOfShare = 48;

int64_t ImageBytes(const RoiAlign& roi) {
  return roi.channels * roi.height * roi.width * static_cast<int64_t>(sizeof(float));
}

template <typename T>
T* Aligned(std::byte* memory) {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  return reinterpret_cast<T*>(memory + (kRoiSumAlignment - address % kRoiSumAlignment) % kRoiSumAlignment);
}

// Orders all boxes by image, computes their weights in batches, and adds them to the blocks of their images.
class BoxAdder {
 public:
  BoxAdder(const RoiAlign& roi, const RoiBlocks& blocks, int64_t slots, const KernelArguments& arguments)
      : roi_(roi),
        blocks_(blocks),
        arguments_(arguments),
        order_(Aligned<int32_t>(arguments.scratch[0])),
        weight_bytes_(kWeightBytes + roi.tensor_bytes() / kPartOfTensors),
        weight_bytes_of_image_(kWeightBytes + ImageBytes(roi) / kPartOfTensors),
        slots_(Aligned<std::byte>(arguments.scratch[1]), slots, RoiSumBytes(blocks)) {}

  // Leaves out boxes that contribute nothing.
  void Order() {
    std::atomic<int64_t> samples = 0;
    arguments_.pool.ParallelFor(roi_.boxes, kBoxesPerPiece, [&](int64_t begin, int64_t end) {
      int64_t own = 0;
      for (int64_t index = begin; index < end; ++index) {
        const RoiBox box = Box(index);
        order_[index] = box.image < 0 ? -1 : static_cast<int32_t>(index);
        own += std::min(box.samples_to_visit, kMostSamples + 1);
      }
      samples += own;
    });
    if (samples > kMostSamples) FailTooManySamples();
    count_ = std::remove(order_, order_ + roi_.boxes, -1) - order_;
    const auto is_before = [this](int32_t a, int32_t b) {
      const int64_t image_a = ImageOf(a);
      const int64_t image_b = ImageOf(b);
      return image_a != image_b ? image_a < image_b : a < b;
    };
    // Most callers give the boxes image by image.
    if (!std::is_sorted(order_, order_ + count_, is_before)) std::sort(order_, order_ + count_, is_before);
  }

  // Adds boxes in batches, because the weights of all boxes may need too much memory.
  void AddAll() {
    int64_t image = 0;
    int64_t begin = 0;
    do {
      const int64_t fitting = EndOfBatch(begin);
      // The weights of one box may need too much, too.
      const bool is_large = fitting == begin && begin < count_;
      const int64_t end = is_large ? begin + 1 : fitting;
      // The image of the next batch's first box: it may be the last image of this batch.
      const int64_t next_image = end == count_ ? roi_.images : ImageOf(order_[end]);
      const bool divided = end < count_ && BeginOf(next_image) < end;
      Weigh(begin, fitting);
      AddBatch({{image, divided ? next_image + 1 : next_image}, {0, roi_.height}, {0, roi_.width}}, begin, fitting,
               begin);
      if (is_large) AddInParts(begin);
      image = next_image;
      begin = end;
    } while (image < roi_.images);
  }

 private:
  [[nodiscard]] const std::byte* Coordinates(int64_t index) const {
    return arguments_.inputs[1] + static_cast<size_t>(index * kCoordinates) * sizeof(float);
  }

  // Computed where it is needed: an array of all boxes would be larger than the tensor of boxes.
  [[nodiscard]] RoiBox Box(int64_t index) const {
    std::array<float, kCoordinates> coordinates;
    std::memcpy(coordinates.data(), Coordinates(index), sizeof(coordinates));
    return MakeRoiBox(roi_, coordinates);
  }

  // Of a box that contributes something.
  [[nodiscard]] int64_t ImageOf(int64_t index) const {
    return static_cast<int64_t>(std::floor(LoadElement<float>(Coordinates(index), 0)));
  }

  // The position of the image's first box, or where it would be.
  [[nodiscard]] int64_t BeginOf(int64_t image) const {
    const auto is_before = [this](int32_t index, int64_t other) { return ImageOf(index) < other; };
    return std::lower_bound(order_, order_ + count_, image, is_before) - order_;
  }

  [[noreturn]] void FailTooManySamples() const {
    int64_t samples = 0;
    int64_t index = 0;
    while ((samples += std::min(Box(index).samples_to_visit, kMostSamples + 1)) <= kMostSamples) ++index;
    throw Error(ACL_ERROR_RT_AICORE_TIMEOUT, "aclnnRoiAlignV2Backward: the boxes up to number " +
                                                 std::to_string(index) + " have more than " +
                                                 std::to_string(kMostSamples) + " samples along their axes");
  }

  [[nodiscard]] int64_t WeightBytes(const RoiBox& box) const {
    const int64_t shares =
        MostShares(box.rows, roi_.pooled_height, roi_.height) + MostShares(box.columns, roi_.pooled_width, roi_.width);
    return kBytesOfBox + kBytesOfBin * (roi_.pooled_height + roi_.pooled_width) + kBytesOfShare * shares;
  }

  // Where an image is divided depends on its own boxes alone, and so do its sums: they are the same in any batch.
  [[nodiscard]] int64_t EndOfBatch(int64_t begin) const {
    int64_t bytes = 0;
    int64_t bytes_of_image = 0;
    int64_t image_begin = begin;
    for (int64_t end = begin; end < count_; ++end) {
      if (ImageOf(order_[end]) != ImageOf(order_[image_begin])) {
        image_begin = end;
        bytes_of_image = 0;
      }
      const int64_t added = WeightBytes(Box(order_[end]));
      bytes += added;
      bytes_of_image += added;
      if (bytes_of_image > weight_bytes_of_image_) return end;
      if (bytes > weight_bytes_) return image_begin;
    }
    return count_;
  }

  void Weigh(int64_t begin, int64_t end) {
    // Arrays of an earlier batch might be larger than these boxes need.
    weighted_.clear();
    weighted_.resize(static_cast<size_t>(end - begin));
    arguments_.pool.ParallelFor(end - begin, kBoxesPerPiece, [&](int64_t first, int64_t last) {
      for (int64_t each = first; each < last; ++each) {
        const int64_t index = order_[begin + each];
        const RoiBox box = Box(index);
        RoiWeighted& weighted = weighted_[static_cast<size_t>(each)];
        weighted.index = index;
        weighted.divisor = box.divisor;
        weighted.rows.Assign(box.rows, {{0, roi_.pooled_height}, {0, roi_.height}}, roi_.height);
        weighted.columns.Assign(box.columns, {{0, roi_.pooled_width}, {0, roi_.width}}, roi_.width);
      }
    });
  }

  // Adds the box at a position bin by bin, or even a part of a bin's cells at a time.
  void AddInParts(int64_t position) {
    const int64_t index = order_[position];
    const RoiBox box = Box(index);
    const int64_t shares = weight_bytes_of_image_ / (2 * (kBytesOfShare + kBytesOfBin));
    weighted_.resize(1);
    RoiWeighted& weighted = weighted_[0];
    weighted.index = index;
    weighted.divisor = box.divisor;
    ForParts(box.rows, roi_.pooled_height, roi_.height, shares, [&](const RoiPart& row_part) {
      weighted.rows.Assign(box.rows, row_part, roi_.height);
      if (weighted.rows.cells().empty()) return;
      ForParts(box.columns, roi_.pooled_width, roi_.width, shares, [&](const RoiPart& column_part) {
        weighted.columns.Assign(box.columns, column_part, roi_.width);
        if (weighted.columns.cells().empty()) return;
        AddBatch({{box.image, box.image + 1}, weighted.rows.extent(), weighted.columns.extent()}, position,
                 position + 1, std::numeric_limits<int64_t>::max());
      });
    });
  }

  // Whether a cell may get too many additions from these boxes of one image, along either axis. The answer is one for
  // all blocks of the image, because their division depends on the number of threads.
  [[nodiscard]] bool HasLongSums(const RoiWeighted* first, const RoiWeighted* last) const {
    // The operator's tolerance is coarse, and hundreds of boxes are usual.
    constexpr int64_t kMostAdditions = 4 * kMostFloatAdditions;
    const int64_t bins = (last - first) * roi_.pooled_height;
    if (roi_.pooled_width <= kMostAdditions && bins <= kMostAdditions) return false;
    for (const RoiWeighted* box = first; box != last; ++box) {
      if (box->columns.bins().size() > kMostAdditions) return true;
    }
    // Some rows at a time, because nobody has counted memory for all rows of a tall image.
    constexpr int64_t kRows = 65536;
    std::vector<uint16_t> additions(static_cast<size_t>(std::min(kRows, roi_.height)));
    for (int64_t begin = 0; begin < roi_.height; begin += kRows) {
      std::fill(additions.begin(), additions.end(), uint16_t{0});
      for (const RoiWeighted* box = first; box != last; ++box) {
        if (!box->rows.extent().Meets({begin, begin + kRows})) continue;
        for (int64_t bin = box->rows.bins().begin; bin < box->rows.bins().end; ++bin) {
          for (const RoiWeights::Share& share : box->rows.OfBin(bin)) {
            const int64_t row = box->rows.cells()[static_cast<size_t>(share.slot)] - begin;
            if (row >= 0 && row < kRows && ++additions[static_cast<size_t>(row)] > kMostAdditions) return true;
          }
        }
      }
    }
    return false;
  }

  void FindLongSums() {
    RoiWeighted* const end = weighted_.data() + weighted_.size();
    for (RoiWeighted* first = weighted_.data(); first != end;) {
      RoiWeighted* last = first;
      while (last != end && ImageOf(last->index) == ImageOf(first->index)) ++last;
      first->long_sums = HasLongSums(first, last);
      first = last;
    }
  }

  // Adds the boxes at the positions [begin, end). Images whose boxes begin at fresh_from or later have no values yet.
  void AddBatch(const RoiRegion& region, int64_t begin, int64_t end, int64_t fresh_from) {
    const int64_t images = region.images.size();
    FindLongSums();
    const int64_t blocks = images * blocks_.CountIn(region);
    const int64_t elements = roi_.channels * (region.rows.size() * region.columns.size() * images +
                                              roi_.pooled_height * roi_.pooled_width * (end - begin));
    arguments_.pool.ParallelFor(blocks, Grain(elements / blocks + 1), [&](int64_t first, int64_t last) {
      const ScratchSlots::Lease sums(slots_);
      for (int64_t number = first; number < last; ++number) {
        const RoiBlock block = BlockAt(roi_, blocks_, region, number);
        const int64_t image_begin = BeginOf(block.image);
        const int64_t boxes_begin = std::clamp(image_begin, begin, end) - begin;
        const int64_t boxes_end = std::clamp(BeginOf(block.image + 1), begin, end) - begin;
        const RoiWeighted* const boxes = weighted_.data() + boxes_begin;
        const bool long_sums = boxes_begin < boxes_end && boxes->long_sums;
        AddAnyLanes(block, sums.memory(), {boxes, weighted_.data() + boxes_end, image_begin >= fresh_from}, long_sums);
      }
    });
  }

  // Boxes of a block's image, in order. If they are fresh, they overwrite the output; otherwise they add to it.
  struct Boxes {
    const RoiWeighted* begin;
    const RoiWeighted* end;
    bool fresh;
  };

  void AddAnyLanes(const RoiBlock& block, std::byte* sums, const Boxes& boxes, bool long_sums) const {
    if (blocks_.lanes == 16) return AddTo<16>(block, sums, boxes, long_sums);
    if (blocks_.lanes == 4) return AddTo<4>(block, sums, boxes, long_sums);
    AddTo<1>(block, sums, boxes, long_sums);
  }

  // Sums of the double size are made for half of the rows at a time, or of the columns of a single row.
  template <int kLanes>
  void AddTo(const RoiBlock& block, std::byte* sums, const Boxes& boxes, bool long_sums) const {
    if (!long_sums) return AddSums<kLanes, float>(block, sums, boxes);
    const int64_t height = std::max<int64_t>(block.rows.size() / 2, 1);
    const int64_t width = std::max<int64_t>(block.rows.size() > 1 ? block.columns.size() : block.columns.size() / 2, 1);
    for (int64_t row = block.rows.begin; row < block.rows.end; row += height) {
      for (int64_t column = block.columns.begin; column < block.columns.end; column += width) {
        AddSums<kLanes, LongSum<float>>({block.image,
                                         block.channels,
                                         {row, std::min(row + height, block.rows.end)},
                                         {column, std::min(column + width, block.columns.end)}},
                                        sums, boxes);
      }
    }
  }

  template <int kLanes, typename Sum>
  void AddSums(const RoiBlock& block, std::byte* sums, const Boxes& boxes) const {
    BlockSum<kLanes, Sum> sum(roi_, arguments_, block, sums, boxes.fresh);
    for (const RoiWeighted* box = boxes.begin; box != boxes.end; ++box) sum.Add(*box);
    sum.Write();
  }

  const RoiAlign& roi_;
  const RoiBlocks& blocks_;
  const KernelArguments& arguments_;
  int32_t* const order_;
  int64_t count_ = 0;  // boxes that contribute something
  const int64_t weight_bytes_;
  const int64_t weight_bytes_of_image_;
  ScratchSlots slots_;
  std::vector<RoiWeighted> weighted_;
};

}  // namespace

template <>
void RoiAlignV2Backward<VECTOR_LEVEL>::Run(const RoiAlign& roi, const RoiBlocks& blocks, int64_t slots,
                                           const KernelArguments& arguments) {
  BoxAdder adder(roi, blocks, slots, arguments);
  adder.Order();
  adder.AddAll();
}

}  // namespace acl_host
