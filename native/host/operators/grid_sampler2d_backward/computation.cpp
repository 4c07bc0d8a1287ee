// A point takes its sample from a cell, or from the four around it by their weights. So it adds its gradient to these
// cells; and the gradient of its place is that of the weights, summed over the cells' values and all channels.
//
// Sums are in float for types of 16 bits, in the order of points or channels, and rounded once. A thread has all sums
// of a cell, or of a point, so their order does not depend on the number of threads.
#include "computation.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "plan/scratch_slots.h"
#include "taps.h"
#include "tensors/elements.h"
#include "tensors/rows.h"

namespace acl_host {
namespace {

constexpr int64_t kElementsPerPiece = 16384;

template <typename T>
struct Tensors {
  const std::byte* grad_output;
  const std::byte* input;
  const std::byte* grid;

  explicit Tensors(const Launch& launch)
      : grad_output(launch.inputs[0]), input(launch.inputs[1]), grid(launch.inputs[2]) {}
};

template <typename T>
constexpr int64_t kBytes = sizeof(T);

// Some cells of a plane, or whole planes that follow one another.
struct Block {
  int64_t image;
  int64_t first_plane;
  int64_t planes;
  int64_t first_cell;
  int64_t cells;  // of each plane
};

Block BlockAt(const GridSampling& sampling, int64_t index) {
  const int64_t group = index / sampling.bands();
  const int64_t image = group / sampling.groups();
  const int64_t channel = group % sampling.groups() * sampling.group;
  const int64_t first_cell = index % sampling.bands() * sampling.band;
  return {image, image * sampling.channels + channel, std::min(sampling.group, sampling.channels - channel), first_cell,
          std::min(sampling.band, sampling.plane() - first_cell)};
}

// Makes the sums of a block.
template <typename T>
void AddUp(const GridSampling& sampling, const Tensors<T>& tensors, const Block& block, std::byte* sums) {
  using F = Wide<T>;
  std::memset(sums, 0, static_cast<size_t>(block.planes * block.cells) * sizeof(F));
  Points<F> points;
  F grads[kPoints];
  Taps<Tap<F>> taps(sampling, block.first_cell, block.cells);
  for (int64_t first = 0; first < sampling.points; first += kPoints) {
    const int64_t count = std::min(kPoints, sampling.points - first);
    FindPoints<T>(sampling, tensors.grid, block.image * sampling.points + first, count, points);
    taps.Clear();
    sampling.nearest ? AddNearest(points, static_cast<int32_t>(count), taps)
                     : AddBilinear(points, static_cast<int32_t>(count), taps);
    for (int64_t plane = 0; plane < block.planes; ++plane) {
      const int64_t from = (block.first_plane + plane) * sampling.points + first;
      WidenRow<T>(tensors.grad_output + from * kBytes<T>, grads, count);
      std::byte* const cells = sums + plane * block.cells * kBytes<F>;
      for (const Tap<F>& tap : taps) {
        StoreElement(cells, tap.cell, LoadElement<F>(cells, tap.cell) + tap.weight * grads[tap.point]);
      }
    }
  }
}

template <typename T>
void MakeInputGrad(const GridSampling& sampling, const Launch& launch, std::byte* out) {
  using F = Wide<T>;
  constexpr bool kDirect = std::is_same_v<T, F>;
  const auto slot_bytes = static_cast<size_t>(sampling.group * sampling.band) * sizeof(F);
  ScratchSlots slots(kDirect ? nullptr : launch.scratch[0], kDirect ? 0 : sampling.slots, slot_bytes);
  const Tensors<T> tensors(launch);
  const auto make_block = [&](int64_t index, std::byte* sums) {
    const Block block = BlockAt(sampling, index);
    std::byte* const to = out + (block.first_plane * sampling.plane() + block.first_cell) * kBytes<T>;
    AddUp<T>(sampling, tensors, block, kDirect ? to : sums);
    if constexpr (!kDirect) RoundRow<T>(reinterpret_cast<const F*>(sums), to, block.planes * block.cells);
  };
  const int64_t blocks = sampling.images * sampling.groups() * sampling.bands();
  const int64_t grain = kElementsPerPiece / (sampling.group * sampling.points) + 1;
  launch.pool.ParallelFor(blocks, grain, [&](int64_t begin, int64_t end) {
    if constexpr (kDirect) {
      for (int64_t index = begin; index < end; ++index) make_block(index, nullptr);
    } else {
      const ScratchSlots::Lease lease(slots);
      for (int64_t index = begin; index < end; ++index) make_block(index, lease.memory());
    }
  });
}

// The gradients of some points' places in one image.
template <typename T>
class PlaceGrads {
  using F = Wide<T>;

 public:
  PlaceGrads(const GridSampling& sampling, const Tensors<T>& tensors)
      : sampling_(sampling), tensors_(tensors), edge_(sampling, 0, sampling.plane()) {}

  void Make(int64_t image, int64_t first, int64_t count, std::byte* out) {
    FindPoints<T>(sampling_, tensors_.grid, image * sampling_.points + first, count, points_);
    Divide(static_cast<int32_t>(count));
    for (int64_t channel = 0; channel < sampling_.channels; ++channel) {
      const int64_t plane = image * sampling_.channels + channel;
      WidenRow<T>(tensors_.grad_output + (plane * sampling_.points + first) * kBytes<T>, grads_, count);
      AddPlane(tensors_.input + plane * sampling_.plane() * kBytes<T>);
    }
    std::byte* const to = out + 2 * (image * sampling_.points + first) * kBytes<T>;
    for (int64_t i = 0; i < count; ++i) {
      RoundElement<T>(to, 2 * i, by_x_[i] * points_.x.slope[i]);
      RoundElement<T>(to, 2 * i + 1, by_y_[i] * points_.y.slope[i]);
    }
  }

 private:
  // Points between four cells go without the question which of these exist.
  void Divide(int32_t count) {
    edge_.Clear();
    inner_end_ = inner_;
    const Corners<F>& to = corners_;
    corners_.Find(points_, count);
    for (int32_t i = 0; i < count; ++i) {
      by_x_[i] = 0;
      by_y_[i] = 0;
      const int64_t column = to.column[i];
      const int64_t row = to.row[i];
      if (column >= 0 && row >= 0 && column + 1 < sampling_.width && row + 1 < sampling_.height) {
        *inner_end_++ = {row * sampling_.width + column, i};
      } else {
        edge_.Add(column, row, {0, i, -to.top[i], -to.left[i]});
        edge_.Add(column + 1, row, {0, i, to.top[i], -to.right[i]});
        edge_.Add(column, row + 1, {0, i, -to.bottom[i], to.left[i]});
        edge_.Add(column + 1, row + 1, {0, i, to.bottom[i], to.right[i]});
      }
    }
  }

  void AddPlane(const std::byte* cells) {
    const std::byte* const below = cells + sampling_.width * kBytes<T>;
    const Corners<F>& to = corners_;
    for (const Inner* each = inner_; each != inner_end_; ++each) {
      const F top_left = WidenElement<T>(cells, each->cell);
      const F top_right = WidenElement<T>(cells, each->cell + 1);
      const F bottom_left = WidenElement<T>(below, each->cell);
      const F bottom_right = WidenElement<T>(below, each->cell + 1);
      const int32_t i = each->point;
      by_x_[i] += grads_[i] * ((top_right - top_left) * to.top[i] + (bottom_right - bottom_left) * to.bottom[i]);
      by_y_[i] += grads_[i] * ((bottom_left - top_left) * to.left[i] + (bottom_right - top_right) * to.right[i]);
    }
    for (const EdgeTap<F>& tap : edge_) {
      const F product = grads_[tap.point] * WidenElement<T>(cells, tap.cell);
      by_x_[tap.point] += product * tap.by_x;
      by_y_[tap.point] += product * tap.by_y;
    }
  }

  const GridSampling& sampling_;
  const Tensors<T>& tensors_;
  Points<F> points_;
  F grads_[kPoints];
  F by_x_[kPoints];
  F by_y_[kPoints];
  Corners<F> corners_;
  Inner inner_[kPoints];
  Inner* inner_end_ = inner_;
  Taps<EdgeTap<F>> edge_;
};

template <typename T>
void MakeGridGrad(const GridSampling& sampling, const Launch& launch, std::byte* out) {
  if (sampling.nearest) {
    std::memset(out, 0, static_cast<size_t>(2 * sampling.images * sampling.points) * sizeof(T));
    return;
  }
  const Tensors<T> tensors(launch);
  const int64_t runs = (sampling.points - 1) / kPoints + 1;
  const int64_t grain = kElementsPerPiece / (sampling.channels * std::min(kPoints, sampling.points)) + 1;
  launch.pool.ParallelFor(sampling.images * runs, grain, [&](int64_t begin, int64_t end) {
    PlaceGrads<T> grads(sampling, tensors);
    for (int64_t run = begin; run < end; ++run) {
      const int64_t first = run % runs * kPoints;
      grads.Make(run / runs, first, std::min(kPoints, sampling.points - first), out);
    }
  });
}

template <typename T>
void Compute(const GridSampling& sampling, const Launch& launch) {
  if (sampling.wants_input_grad) MakeInputGrad<T>(sampling, launch, launch.outputs.front());
  if (sampling.wants_grid_grad) MakeGridGrad<T>(sampling, launch, launch.outputs.back());
}

}  // namespace

template <>
void GridSampler2dBackward<VECTOR_LEVEL>::Run(const GridSampling& sampling, aclDataType type, const Launch& launch) {
  if (type == ACL_DOUBLE) return Compute<double>(sampling, launch);
  VisitFloatType(type, [&](auto tag) { Compute<typename decltype(tag)::Type>(sampling, launch); });
}

}  // namespace acl_host
