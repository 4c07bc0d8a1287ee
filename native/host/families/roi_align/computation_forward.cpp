// Boxes are weighed in batches, whose weights take little memory beside the tensors, and then pooled channel by
// channel: a plane stays in the cache of a core while its boxes are pooled.
//
// A bin depends on its own box alone, so the result does not depend on the number of threads.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "errors/exceptions.h"
#include "forward.h"
#include "pooled_box.h"
#include "tensors/elements.h"

namespace acl_host {
namespace {

constexpr size_t kCoordinates = 5;

// With more samples a device would exceed its time limit, and a processor would take minutes.
constexpr int64_t kMostSamples = int64_t{1} << 31;

// The weights that are in memory at a time: so many bytes, and this part of the tensors' bytes.
constexpr int64_t kWeightBytes = int64_t{1} << 20;
constexpr int64_t kPartOfTensors = 16;
// What they take about: for each box, for each bin, and for each share with its cell, while their arrays grow.
constexpr int64_t kBytesOfBox = 384;
constexpr int64_t kBytesOfBin = 16;
constexpr int64_t kBytesOfShare = 32;

template <typename T>
class Boxes {
 public:
  Boxes(const RoiAlign& roi, const KernelArguments& arguments)
      : roi_(roi),
        arguments_(arguments),
        whole_rows_{{0, roi.pooled_height}, {0, roi.height}},
        whole_columns_{{0, roi.pooled_width}, {0, roi.width}},
        weight_bytes_(kWeightBytes + roi.tensor_bytes() / kPartOfTensors / int64_t{sizeof(float)} * kBytes) {}

  void Pool() {
    for (int64_t begin = 0; begin < roi_.boxes;) {
      Gather(begin);
      const auto count = static_cast<int64_t>(boxes_.size());
      if (count == 1 && WeightBytes(boxes_[0]) > weight_bytes_) {
        PoolInParts(begin);
      } else {
        PoolBatch(begin, count);
      }
      begin += count;
    }
  }

 private:
  static constexpr auto kBytes = int64_t{sizeof(T)};

  [[nodiscard]] RoiBox BoxAt(int64_t index) const {
    std::array<float, kCoordinates> coordinates;
    const std::byte* const box = arguments_.inputs[1] + index * int64_t{kCoordinates} * kBytes;
    for (size_t i = 0; i < kCoordinates; ++i) coordinates[i] = WidenElement<T>(box, static_cast<int64_t>(i));
    return MakeRoiBox(roi_, coordinates);
  }

  [[nodiscard]] int64_t WeightBytes(const RoiBox& box) const {
    if (box.image < 0) return kBytesOfBox;
    const int64_t shares =
        MostShares(box.rows, roi_.pooled_height, roi_.height) + MostShares(box.columns, roi_.pooled_width, roi_.width);
    return kBytesOfBox + kBytesOfBin * (roi_.pooled_height + roi_.pooled_width) + kBytesOfShare * shares;
  }

  // Takes as many boxes from this one on as have room for their weights, at least one.
  void Gather(int64_t begin) {
    boxes_.clear();
    int64_t bytes = 0;
    for (int64_t index = begin; index < roi_.boxes; ++index) {
      const RoiBox box = BoxAt(index);
      bytes += WeightBytes(box);
      if (index > begin && bytes > weight_bytes_) return;
      samples_ += std::min(box.samples_to_visit, kMostSamples + 1);
      if (samples_ > kMostSamples) {
        throw Error(ACL_ERROR_RT_AICORE_TIMEOUT, "aclnnRoiAlignV2: the boxes up to number " + std::to_string(index) +
                                                     " have more than " + std::to_string(kMostSamples) +
                                                     " samples along their axes");
      }
      boxes_.push_back(box);
    }
  }

  void PoolBatch(int64_t begin, int64_t count) {
    constexpr int64_t kBoxesPerPiece = 64;
    std::vector<PooledBox> pooled(static_cast<size_t>(count));
    arguments_.pool.ParallelFor(count, kBoxesPerPiece, [&](int64_t first, int64_t last) {
      for (auto each = static_cast<size_t>(first); each < static_cast<size_t>(last); ++each) {
        if (boxes_[each].image >= 0) pooled[each].Assign(roi_, boxes_[each], whole_rows_, whole_columns_);
      }
    });
    const int64_t grain = Grain(8 * roi_.pooled_height * roi_.pooled_width);
    arguments_.pool.ParallelFor(roi_.channels * count, grain, [&](int64_t first, int64_t last) {
      BoxPool<T> pool(roi_);
      for (int64_t unit = first; unit < last; ++unit) {
        const int64_t each = unit % count;
        PoolBox(pool, pooled[static_cast<size_t>(each)], boxes_[static_cast<size_t>(each)].image, unit / count,
                begin + each);
      }
    });
  }

  [[nodiscard]] const std::byte* PlaneOf(int64_t image, int64_t channel) const {
    return arguments_.inputs[0] + (image * roi_.channels + channel) * roi_.height * roi_.width * kBytes;
  }
  [[nodiscard]] std::byte* BinsOf(int64_t index, int64_t channel) const {
    return arguments_.outputs[0] + (index * roi_.channels + channel) * roi_.pooled_height * roi_.pooled_width * kBytes;
  }

  void PoolBox(BoxPool<T>& pool, const PooledBox& box, int64_t image, int64_t channel, int64_t index) const {
    std::byte* const bins = BinsOf(index, channel);
    if (image < 0) {
      std::memset(bins, 0, static_cast<size_t>(roi_.pooled_height * roi_.pooled_width) * sizeof(T));
      return;
    }
    pool.Pool(box, PlaneOf(image, channel), [bins, width = roi_.pooled_width](int64_t row, int64_t column, auto mean) {
      RoundElement<T>(bins, row * width + column, static_cast<float>(mean));
    });
  }

  // Pools a box of which the weights are too many bin by bin, or even a part of a bin's cells at a time.
  void PoolInParts(int64_t index) {
    const int64_t shares = weight_bytes_ / (2 * (kBytesOfShare + kBytesOfBin));
    const auto parts_of = [&](const RoiAxis& axis, int64_t bins, int64_t size) {
      std::vector<RoiPart> parts;
      ForParts(axis, bins, size, shares, [&](const RoiPart& part) { parts.push_back(part); });
      return parts;
    };
    const std::vector<RoiPart> rows = parts_of(boxes_[0].rows, roi_.pooled_height, roi_.height);
    const std::vector<RoiPart> columns = parts_of(boxes_[0].columns, roi_.pooled_width, roi_.width);
    for (auto row = rows.begin(); row != rows.end();) {
      const auto row_end = EndOfBins(row, rows.end());
      for (auto column = columns.begin(); column != columns.end();) {
        const auto column_end = EndOfBins(column, columns.end());
        PoolBins(index, {row, row_end}, {column, column_end});
        column = column_end;
      }
      row = row_end;
    }
  }

  using Part = std::vector<RoiPart>::const_iterator;
  struct Parts {
    Part begin;
    Part end;

    [[nodiscard]] const Range& bins() const { return begin->bins; }
  };

  static Part EndOfBins(Part part, Part end) {
    return std::find_if(part, end, [&](const RoiPart& other) { return other.bins.begin != part->bins.begin; });
  }

  // Some bins, of which these parts have all cells.
  void PoolBins(int64_t index, const Parts& rows, const Parts& columns) {
    const int64_t width = columns.bins().size();
    const int64_t bins = rows.bins().size() * width;
    std::vector<double> means(static_cast<size_t>(roi_.channels * bins));
    for (Part row = rows.begin; row != rows.end; ++row) {
      for (Part column = columns.begin; column != columns.end; ++column) {
        PooledBox part;
        part.Assign(roi_, boxes_[0], *row, *column);
        if (part.is_empty()) continue;
        arguments_.pool.ParallelFor(roi_.channels, 1, [&](int64_t first, int64_t last) {
          BoxPool<T> pool(roi_);
          for (int64_t channel = first; channel < last; ++channel) {
            pool.Pool(part, PlaneOf(boxes_[0].image, channel), [&](int64_t y, int64_t x, auto mean) {
              const int64_t bin = (y - rows.bins().begin) * width + x - columns.bins().begin;
              means[static_cast<size_t>(channel * bins + bin)] += double{mean};
            });
          }
        });
      }
    }
    for (int64_t channel = 0; channel < roi_.channels; ++channel) {
      for (int64_t bin = 0; bin < bins; ++bin) {
        const int64_t place =
            (rows.bins().begin + bin / width) * roi_.pooled_width + columns.bins().begin + bin % width;
        const double mean = means[static_cast<size_t>(channel * bins + bin)];
        RoundElement<T>(BinsOf(index, channel), place, static_cast<float>(mean));
      }
    }
  }

  const RoiAlign& roi_;
  const KernelArguments& arguments_;
  const RoiPart whole_rows_;
  const RoiPart whole_columns_;
  const int64_t weight_bytes_;
  std::vector<RoiBox> boxes_;  // of the batch
  int64_t samples_ = 0;        // of all boxes so far
};

}  // namespace

template <>
void RoiAlignV2<VECTOR_LEVEL>::Run(const RoiAlign& roi, aclDataType type, const KernelArguments& arguments) {
  type == ACL_FLOAT ? Boxes<float>(roi, arguments).Pool() : Boxes<Float16>(roi, arguments).Pool();
}

}  // namespace acl_host
