// A point takes its sample from a cell, or from the four around it by their weights, in every channel.
//
// Where the points of a block lie is found once for a group of channels. A sample depends on its point alone, so the
// result does not depend on the number of threads.
#include <algorithm>
#include <type_traits>

#include "computation.h"
#include "pairs.h"
#include "taps.h"
#include "tensors/elements.h"
#include "tensors/rows.h"

namespace acl_host {
namespace {

constexpr int kAxes = 2;
constexpr int kCorners = 1 << kAxes;

// Blocks of points that a thread takes together.
constexpr int64_t kBlocksPerRun = 32;

// The samples of some points of an image in one channel after the other.
template <typename T>
class Samples {
  using F = Wide<T>;

 public:
  Samples(const GridSampling& sampling, const KernelArguments& arguments)
      : sampling_(sampling),
        arguments_(arguments),
        has_inner_(!sampling.nearest && sampling.sizes[0] > 1 && sampling.sizes[1] > 1),
        taps_(sampling, 0, sampling.cells()) {}

  // The points of the image from this one on.
  void Find(int64_t image, int64_t first, int64_t count) {
    first_ = first;
    count_ = static_cast<int32_t>(count);
    FindPoints<T, kAxes>(sampling_, arguments_.inputs[1], image * sampling_.points + first, count, points_);
    taps_.Clear();
    if (sampling_.nearest) return AddNearest(points_, count_, taps_);
    corners_.Find(points_, count_);
    edge_count_ = 0;
    if (has_inner_) FindInner();
    for (int32_t i = 0; i < count_; ++i) {
      if (!has_inner_ || is_inner_[i] == 0) AddEdge(i);
    }
  }

  // A channel, counted through all images.
  void Take(int64_t channel) {
    const std::byte* const cells = arguments_.inputs[0] + channel * sampling_.cells() * kBytes;
    if (has_inner_) {
      TakeInner(cells);
      for (int32_t i = 0; i < edge_count_; ++i) samples_[edge_[i]] = 0;
    } else {
      std::fill_n(samples_, count_, F{0});
    }
    for (const Tap<F>& tap : taps_) samples_[tap.point] += tap.weight * WidenElement<T>(cells, tap.cell);
    std::byte* const out = arguments_.outputs[0] + (channel * sampling_.points + first_) * kBytes;
    RoundRow<T>(samples_, out, count_);
  }

 private:
  static constexpr auto kBytes = int64_t{sizeof(T)};

  // Points between cells that all exist go without the question which of these do. The others have any cells here.
  void FindInner() {
    const auto last_x = static_cast<int32_t>(sampling_.sizes[0] - 1);
    const auto last_y = static_cast<int32_t>(sampling_.sizes[1] - 1);
    const auto width = static_cast<uint32_t>(sampling_.sizes[0]);
    for (int32_t i = 0; i < count_; ++i) {
      const int32_t x = corners_.before[0][i];
      const int32_t y = corners_.before[1][i];
      is_inner_[i] = static_cast<int32_t>(x >= 0) & static_cast<int32_t>(x < last_x) &  //
                     static_cast<int32_t>(y >= 0) & static_cast<int32_t>(y < last_y);
      cell_[i] = is_inner_[i] != 0 ? static_cast<uint32_t>(y) * width + static_cast<uint32_t>(x) : 0;
    }
    for (int64_t i = count_; i % kTogether != 0; ++i) cell_[i] = 0;
    for (int corner = 0; corner < kCorners; ++corner) {
      const F* const along_x = corners_.weight[0][corner & 1];
      const F* const along_y = corners_.weight[1][corner >> 1];
      for (int32_t i = 0; i < count_; ++i) weight_[corner][i] = along_x[i] * along_y[i];
    }
  }

  void AddEdge(int32_t i) {
    edge_[edge_count_++] = i;
    for (int corner = 0; corner < kCorners; ++corner) {
      const Position<kAxes> after = Corner<kAxes>(corner);
      const F weight = corners_.weight[0][after[0]][i] * corners_.weight[1][after[1]][i];
      taps_.Add(corners_.PositionOf(after, i), {0, i, weight});
    }
  }

  void TakeInner(const std::byte* cells) {
    const std::byte* const below = cells + sampling_.sizes[0] * kBytes;
    if constexpr (std::is_same_v<F, float>) {
      const auto lanes_of = [](const auto* values, int64_t first) {
        return LoadLanes<float>(reinterpret_cast<const std::byte*>(values), first, AllLanes{});
      };
      for (int64_t i = 0; i < count_; i += kFloatLanes) {
        const auto places = BitCast<WordLanes>(lanes_of(cell_, i));
        const PairLanes upper = GatherPairs<T>(cells, places);
        const PairLanes lower = GatherPairs<T>(below, places);
        const FloatLanes sum = lanes_of(weight_[0], i) * upper.first + lanes_of(weight_[1], i) * upper.second +
                               lanes_of(weight_[2], i) * lower.first + lanes_of(weight_[3], i) * lower.second;
        StoreLanes<float>(sum, reinterpret_cast<std::byte*>(samples_), i, AllLanes{});
      }
    } else {
      for (int32_t i = 0; i < count_; ++i) {
        const int64_t cell = cell_[i];
        samples_[i] = weight_[0][i] * LoadElement<T>(cells, cell) + weight_[1][i] * LoadElement<T>(cells, cell + 1) +
                      weight_[2][i] * LoadElement<T>(below, cell) + weight_[3][i] * LoadElement<T>(below, cell + 1);
      }
    }
  }

  const GridSampling& sampling_;
  const KernelArguments& arguments_;
  const bool has_inner_;
  int64_t first_ = 0;
  int32_t count_ = 0;
  Points<F, kAxes> points_;
  Corners<F, kAxes> corners_;
  F samples_[kPoints];

  // The first of the four cells around each point, and the weights of all; those that lack one of the cells.
  uint32_t cell_[kPoints];
  int32_t is_inner_[kPoints];
  F weight_[kCorners][kPoints] = {};
  int32_t edge_[kPoints];
  int32_t edge_count_ = 0;

  // The cells of these, or of all points if the nearest is taken.
  Taps<Tap<F>, kAxes> taps_;
};

template <typename T>
void Compute(const GridSampling& sampling, const KernelArguments& arguments) {
  constexpr int64_t kRun = kBlocksPerRun * kPoints;
  const int64_t runs = (sampling.points - 1) / kRun + 1;
  const int64_t grain = Grain(4 * sampling.group * std::min(kRun, sampling.points));
  arguments.pool.ParallelFor(sampling.images * sampling.groups() * runs, grain, [&](int64_t begin, int64_t end) {
    Samples<T> samples(sampling, arguments);
    for (int64_t index = begin; index < end; ++index) {
      const int64_t image = index / runs / sampling.groups();
      const int64_t channel = index / runs % sampling.groups() * sampling.group;
      const int64_t channels = std::min(sampling.group, sampling.channels - channel);
      const int64_t last = std::min((index % runs + 1) * kRun, sampling.points);
      for (int64_t first = index % runs * kRun; first < last; first += kPoints) {
        samples.Find(image, first, std::min(kPoints, last - first));
        for (int64_t each = 0; each < channels; ++each) samples.Take(image * sampling.channels + channel + each);
      }
    }
  });
}

}  // namespace

template <>
void GridSampler<VECTOR_LEVEL>::Run(const GridSampling& sampling, aclDataType type, const KernelArguments& arguments) {
  const auto compute = [&](auto tag) { Compute<typename decltype(tag)::Type>(sampling, arguments); };
  type == ACL_DOUBLE ? compute(TypeTag<double>{}) : VisitFloatType(type, compute);
}

}  // namespace acl_host
