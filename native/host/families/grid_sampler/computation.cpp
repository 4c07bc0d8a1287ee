// A point takes its sample from a cell, or from the four or eight around it by their weights. So it adds its gradient
// to these cells; and the gradient of its place is that of the weights, summed over the cells' values and all channels.
//
// Sums are in the order of points or channels, and rounded once. A thread has all sums of a cell, or of a point, so
// their order does not depend on the number of threads.
#include "computation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "crowds.h"
#include "plan/scratch_slots.h"
#include "taps.h"
#include "tensors/elements.h"
#include "tensors/rows.h"
#include "tensors/sums.h"

namespace acl_host {
namespace {

template <typename T>
constexpr int64_t kBytes = sizeof(T);

// Some cells of a channel, or whole channels that follow one another.
struct Block {
  int64_t image;
  int64_t first_channel;  // counted through all images
  int64_t channels;
  int64_t first_cell;
  int64_t cells;  // of each channel
};

Block BlockAt(const GridSampling& sampling, int64_t index) {
  const int64_t group = index / sampling.bands();
  const int64_t image = group / sampling.groups();
  const int64_t channel = group % sampling.groups() * sampling.group;
  const int64_t first_cell = index % sampling.bands() * sampling.band;
  return {image, image * sampling.channels + channel, std::min(sampling.group, sampling.channels - channel), first_cell,
          std::min(sampling.band, sampling.cells() - first_cell)};
}

// Makes the sums of a block, of the type Sum. Returns false if a cell of the image has too many points for it.
template <typename T, int kAxes, typename Sum>
bool AddUp(const GridSampling& sampling, const KernelArguments& arguments, const Block& block, std::byte* sums) {
  using F = Wide<T>;
  std::memset(sums, 0, static_cast<size_t>(block.channels * block.cells) * sizeof(Sum));
  Points<F, kAxes> points;
  F grads[kPoints];
  Taps<Tap<F>, kAxes> taps(sampling, block.first_cell, block.cells);
  std::optional<Crowds> crowds;
  if (sizeof(Sum) < sizeof(double) && sampling.points > kMostFloatAdditions) crowds.emplace(sampling);
  for (int64_t first = 0; first < sampling.points; first += kPoints) {
    const int64_t count = std::min(kPoints, sampling.points - first);
    FindPoints<T, kAxes>(sampling, arguments.inputs[2], block.image * sampling.points + first, count, points);
    if (crowds && crowds->Add(points, count)) return false;
    taps.Clear();
    sampling.nearest ? AddNearest(points, static_cast<int32_t>(count), taps)
                     : AddLinear(points, static_cast<int32_t>(count), taps);
    for (int64_t channel = 0; channel < block.channels; ++channel) {
      const int64_t from = (block.first_channel + channel) * sampling.points + first;
      WidenRow<T>(arguments.inputs[0] + from * kBytes<T>, grads, count);
      std::byte* const cells = sums + channel * block.cells * kBytes<Sum>;
      for (const Tap<F>& tap : taps) {
        StoreElement(cells, tap.cell, LoadElement<Sum>(cells, tap.cell) + Sum{tap.weight * grads[tap.point]});
      }
    }
  }
  return true;
}

// Makes a block by way of its sums, as many at a time as there is memory for.
template <typename T, int kAxes, typename Sum>
bool MakeBlock(const GridSampling& sampling, const KernelArguments& arguments, const Block& block, std::byte* sums,
               std::byte* out) {
  const int64_t room = sampling.slot_bytes / kBytes<Sum>;
  const int64_t channels = std::clamp<int64_t>(room / block.cells, 1, block.channels);
  const int64_t cells = std::min(room, block.cells);
  for (int64_t channel = 0; channel < block.channels; channel += channels) {
    for (int64_t cell = 0; cell < block.cells; cell += cells) {
      const Block part{block.image, block.first_channel + channel, std::min(channels, block.channels - channel),
                       block.first_cell + cell, std::min(cells, block.cells - cell)};
      if (!AddUp<T, kAxes, Sum>(sampling, arguments, part, sums)) return false;
      std::byte* const to = out + (part.first_channel * sampling.cells() + part.first_cell) * kBytes<T>;
      if constexpr (std::is_same_v<Sum, float>) {
        RoundRow<T>(reinterpret_cast<const Sum*>(sums), to, part.channels * part.cells);
      } else {
        for (int64_t i = 0; i < part.channels * part.cells; ++i) {
          RoundElement<T>(to, i, static_cast<Wide<T>>(LoadElement<Sum>(sums, i)));
        }
      }
    }
  }
  return true;
}

template <typename T, int kAxes>
void MakeInputGrad(const GridSampling& sampling, const KernelArguments& arguments, std::byte* out) {
  using F = Wide<T>;
  constexpr bool kDirect = std::is_same_v<T, F>;
  const bool has_slots = sampling.slot_bytes > 0;
  ScratchSlots slots(has_slots ? arguments.scratch[0] : nullptr, has_slots ? sampling.slots : 0,
                     static_cast<size_t>(sampling.slot_bytes));
  const auto make_block = [&](int64_t index, std::byte* sums) {
    const Block block = BlockAt(sampling, index);
    if constexpr (kDirect) {
      std::byte* const to = out + (block.first_channel * sampling.cells() + block.first_cell) * kBytes<T>;
      if (AddUp<T, kAxes, F>(sampling, arguments, block, to)) return;
    } else {
      if (MakeBlock<T, kAxes, F>(sampling, arguments, block, sums, out)) return;
    }
    (void)MakeBlock<T, kAxes, double>(sampling, arguments, block, sums, out);
  };
  const int64_t blocks = sampling.images * sampling.groups() * sampling.bands();
  const int64_t grain = Grain(2 * sampling.group * sampling.points);
  arguments.pool.ParallelFor(blocks, grain, [&](int64_t begin, int64_t end) {
    std::optional<ScratchSlots::Lease> lease;
    if (has_slots) lease.emplace(slots);
    for (int64_t index = begin; index < end; ++index) make_block(index, has_slots ? lease->memory() : nullptr);
  });
}

// The gradients of some points' places in one image.
template <typename T, int kAxes>
class PlaceGrads {
  using F = Wide<T>;
  static constexpr int kCorners = 1 << kAxes;

 public:
  PlaceGrads(const GridSampling& sampling, const KernelArguments& arguments)
      : sampling_(sampling), arguments_(arguments), edge_(sampling, 0, sampling.cells()) {}

  void Make(int64_t image, int64_t first, int64_t count, std::byte* out) {
    FindPoints<T, kAxes>(sampling_, arguments_.inputs[2], image * sampling_.points + first, count, points_);
    Divide(static_cast<int32_t>(count));
    double totals[kAxes][kPoints] = {};
    for (int64_t index = 0; index < sampling_.channels; ++index) {
      if (index > 0 && index % kMostFloatAdditions == 0) MoveTo(totals);
      const int64_t channel = image * sampling_.channels + index;
      WidenRow<T>(arguments_.inputs[0] + (channel * sampling_.points + first) * kBytes<T>, grads_, count);
      AddChannel(arguments_.inputs[1] + channel * sampling_.cells() * kBytes<T>);
    }
    MoveTo(totals);
    std::byte* const to = out + kAxes * (image * sampling_.points + first) * kBytes<T>;
    for (int64_t i = 0; i < count; ++i) {
      for (int axis = 0; axis < kAxes; ++axis) {
        RoundElement<T>(to, kAxes * i + axis, static_cast<F>(totals[axis][i]) * points_.along[axis].slope[i]);
      }
    }
  }

 private:
  // Points between cells that all exist go without the question which of these do.
  void Divide(int32_t count) {
    edge_.Clear();
    inner_.count = 0;
    corners_.Find(points_, count);
    for (int32_t i = 0; i < count; ++i) {
      for (int axis = 0; axis < kAxes; ++axis) by_[axis][i] = 0;
      const Position<kAxes> position = corners_.PositionOf({}, i);
      bool is_inner = true;
      int64_t cell = 0;
      for (int axis = kAxes - 1; axis >= 0; --axis) {
        is_inner = is_inner && position[axis] >= 0 && position[axis] + 1 < sampling_.sizes[axis];
        cell = cell * sampling_.sizes[axis] + position[axis];
      }
      is_inner ? inner_.Add(cell, i, corners_) : AddEdge(i);
    }
    inner_.Fill();
  }

  void AddEdge(int32_t i) {
    for (int corner = 0; corner < kCorners; ++corner) {
      const Position<kAxes> after = Corner<kAxes>(corner);
      EdgeTap<F, kAxes> tap{0, i, {}};
      for (int axis = 0; axis < kAxes; ++axis) {
        tap.by[axis] = after[axis] == 0 ? -1 : 1;
        for (int other = 0; other < kAxes; ++other) {
          if (other != axis) tap.by[axis] *= corners_.weight[other][after[other]][i];
        }
      }
      edge_.Add(corners_.PositionOf(after, i), tap);
    }
  }

  void AddChannel(const std::byte* cells) {
    const int64_t steps[] = {1, sampling_.sizes[0], sampling_.sizes[0] * sampling_.sizes[1]};
    for (int64_t first = 0; first < inner_.count; first += kTogether) {
      F values[kCorners][kTogether];
      F grads[kTogether];
      for (int64_t k = 0; k < kTogether; ++k) {
        grads[k] = grads_[inner_.point[first + k]];
        for (int corner = 0; corner < kCorners; ++corner) {
          int64_t cell = inner_.cell[first + k];
          for (int axis = 0; axis < kAxes; ++axis) cell += (corner >> axis & 1) * steps[axis];
          values[corner][k] = WidenElement<T>(cells, cell);
        }
      }
      AddSlopes<0>(values, grads, first);
      AddSlopes<1>(values, grads, first);
      if constexpr (kAxes == 3) AddSlopes<2>(values, grads, first);
    }
    for (const EdgeTap<F, kAxes>& tap : edge_) {
      const F product = grads_[tap.point] * WidenElement<T>(cells, tap.cell);
      for (int axis = 0; axis < kAxes; ++axis) by_[axis][tap.point] += product * tap.by[axis];
    }
  }

  // Adds the sums of some channels to those of all, and begins anew.
  void MoveTo(double (&totals)[kAxes][kPoints]) {
    for (int axis = 0; axis < kAxes; ++axis) {
      for (int64_t k = 0; k < inner_.count; ++k) by_[axis][inner_.point[k]] += std::exchange(inner_.by[axis][k], F{});
      for (int64_t i = 0; i < kPoints; ++i) totals[axis][i] += double{std::exchange(by_[axis][i], F{})};
    }
  }

  // How much samples grow along an axis: their cells' differences there, weighted along the other axes.
  template <int kAxis>
  void AddSlopes(const F (&values)[kCorners][kTogether], const F (&grads)[kTogether], int64_t first) {
    F* __restrict const by = inner_.by[kAxis] + first;
    for (int64_t k = 0; k < kTogether; ++k) {
      F slopes[kCorners / 2];
      for (int edge = 0; edge < kCorners / 2; ++edge) {
        const int before = (edge >> kAxis << (kAxis + 1)) | (edge & ((1 << kAxis) - 1));
        slopes[edge] = values[before | 1 << kAxis][k] - values[before][k];
      }
      int edges = kCorners / 2;
      for (int other = 0; other < kAxes; ++other) {
        if (other == kAxis) continue;
        const F before = inner_.weight[other][0][first + k];
        const F after = inner_.weight[other][1][first + k];
        edges /= 2;
        for (int edge = 0; edge < edges; ++edge) {
          slopes[edge] = slopes[2 * edge] * before + slopes[2 * edge + 1] * after;
        }
      }
      by[k] += grads[k] * slopes[0];
    }
  }

  const GridSampling& sampling_;
  const KernelArguments& arguments_;
  Points<F, kAxes> points_;
  F grads_[kPoints];
  F by_[kAxes][kPoints] = {};
  Corners<F, kAxes> corners_;
  InnerPoints<F, kAxes> inner_;
  Taps<EdgeTap<F, kAxes>, kAxes> edge_;
};

template <typename T, int kAxes>
void MakeGridGrad(const GridSampling& sampling, const KernelArguments& arguments, std::byte* out) {
  if (sampling.nearest) {
    std::memset(out, 0, static_cast<size_t>(kAxes * sampling.images * sampling.points) * sizeof(T));
    return;
  }
  const int64_t runs = (sampling.points - 1) / kPoints + 1;
  const int64_t grain = Grain(2 * sampling.channels * std::min(kPoints, sampling.points));
  arguments.pool.ParallelFor(sampling.images * runs, grain, [&](int64_t begin, int64_t end) {
    PlaceGrads<T, kAxes> grads(sampling, arguments);
    for (int64_t run = begin; run < end; ++run) {
      const int64_t first = run % runs * kPoints;
      grads.Make(run / runs, first, std::min(kPoints, sampling.points - first), out);
    }
  });
}

template <typename T, int kAxes>
void Compute(const GridSampling& sampling, const KernelArguments& arguments) {
  if (sampling.wants_input_grad) MakeInputGrad<T, kAxes>(sampling, arguments, arguments.outputs.front());
  if (sampling.wants_grid_grad) MakeGridGrad<T, kAxes>(sampling, arguments, arguments.outputs.back());
}

}  // namespace

template <>
void GridSamplerBackward<VECTOR_LEVEL>::Run(const GridSampling& sampling, aclDataType type,
                                            const KernelArguments& arguments) {
  const auto compute = [&](auto tag) {
    using T = typename decltype(tag)::Type;
    (sampling.axes == 2 ? Compute<T, 2> : Compute<T, 3>)(sampling, arguments);
  };
  type == ACL_DOUBLE ? compute(TypeTag<double>{}) : VisitFloatType(type, compute);
}

}  // namespace acl_host
