// aclnnAdaptiveAvgPool2dBackward: every cell of the gradient is the sum of gradOutput over the windows that cover it,
// each divided by its window's area.
//
// Sums are made in float32, columns before rows and both in ascending order, and rounded once to the data type of the
// output. Each output row is made by one thread, so the result does not depend on the number of threads.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "aclnnop/aclnn_adaptive_avg_pool2d_backward.h"
#include "checks.h"
#include "elements.h"
#include "executor.h"

namespace acl_host {
namespace {

constexpr int64_t kElementsPerPiece = 32768;

struct Range {
  int64_t begin;
  int64_t end;

  [[nodiscard]] int64_t size() const { return end - begin; }
  [[nodiscard]] bool operator==(const Range& other) const { return begin == other.begin && end == other.end; }
};

// The windows along one axis: window i of count covers the cells [floor(i * size / count), ceil((i + 1) * size /
// count)). The fractions are carried from one window to the next, so that no product can overflow.
std::vector<Range> WindowsOf(int64_t size, int64_t count) {
  std::vector<Range> windows(static_cast<size_t>(count));
  int64_t begin = 0;
  int64_t remainder = 0;
  for (Range& window : windows) {
    window.begin = begin;
    begin += size / count;
    // remainder + size % count may exceed 63 bits; the distance to count does not.
    const int64_t distance = count - remainder;
    if (size % count >= distance) {
      ++begin;
      remainder = size % count - distance;
    } else {
      remainder += size % count;
    }
    window.end = begin + (remainder > 0 ? 1 : 0);
  }
  return windows;
}

// For each cell along the axis, the windows that cover it: they are neighbours, because windows begin and end in order.
std::vector<Range> CoversOf(int64_t size, const std::vector<Range>& windows) {
  std::vector<Range> covers(static_cast<size_t>(size));
  const auto count = static_cast<int64_t>(windows.size());
  Range cover{0, 0};
  for (int64_t cell = 0; cell < size; ++cell) {
    while (windows[static_cast<size_t>(cover.begin)].end <= cell) ++cover.begin;
    while (cover.end < count && windows[static_cast<size_t>(cover.end)].begin <= cell) ++cover.end;
    covers[static_cast<size_t>(cell)] = cover;
  }
  return covers;
}

struct Geometry {
  int64_t planes;
  int64_t height;
  int64_t width;
  int64_t out_height;
  int64_t out_width;
};

struct Windows {
  explicit Windows(const Geometry& geometry)
      : rows(WindowsOf(geometry.height, geometry.out_height)),
        columns(WindowsOf(geometry.width, geometry.out_width)),
        row_covers(CoversOf(geometry.height, rows)) {}

  const std::vector<Range> rows;
  const std::vector<Range> columns;
  const std::vector<Range> row_covers;
};

// Rows of gradOutput spread over the columns of the output. Neighbouring output rows share them, so the last two are
// kept.
template <typename T>
class SpreadRows {
 public:
  SpreadRows(const Geometry& geometry, const Windows& windows, const std::byte* grad_output)
      : geometry_(geometry), windows_(windows), grad_output_(grad_output) {
    for (Slot& slot : slots_) slot.row.resize(static_cast<size_t>(geometry.width));
  }

  const float* Get(int64_t plane, int64_t index) {
    const int64_t grad_row = plane * geometry_.out_height + index;
    Slot& slot = slots_[static_cast<size_t>(grad_row & 1)];
    if (slot.grad_row != grad_row) {
      Spread(grad_row, windows_.rows[static_cast<size_t>(index)].size(), slot.row.data());
      slot.grad_row = grad_row;
    }
    return slot.row.data();
  }

 private:
  struct Slot {
    int64_t grad_row = -1;
    std::vector<float> row;
  };

  void Spread(int64_t grad_row, int64_t window_height, float* row) const {
    std::fill_n(row, geometry_.width, 0.0F);
    const int64_t first = grad_row * geometry_.out_width;
    for (int64_t column = 0; column < geometry_.out_width; ++column) {
      const Range& window = windows_.columns[static_cast<size_t>(column)];
      const auto area = static_cast<float>(window_height * window.size());
      const float share = LoadWide<T>(grad_output_, first + column) / area;
      for (int64_t cell = window.begin; cell < window.end; ++cell) row[cell] += share;
    }
  }

  const Geometry& geometry_;
  const Windows& windows_;
  const std::byte* const grad_output_;
  std::array<Slot, 2> slots_;
};

// Output rows [begin, end), counted through all planes.
template <typename T>
void ComputeRows(const Geometry& geometry, const Windows& windows, const Launch& launch, int64_t begin, int64_t end) {
  const int64_t width = geometry.width;
  std::byte* const out = launch.outputs[0];
  SpreadRows<T> spread(geometry, windows, launch.inputs[0]);
  std::vector<float> sum(static_cast<size_t>(width));
  for (int64_t row = begin; row < end; ++row) {
    const int64_t plane = row / geometry.height;
    const int64_t y = row % geometry.height;
    const Range& cover = windows.row_covers[static_cast<size_t>(y)];
    if (row > begin && y > 0 && windows.row_covers[static_cast<size_t>(y - 1)] == cover) {
      const auto row_bytes = static_cast<size_t>(width) * sizeof(T);
      std::byte* const target = out + static_cast<size_t>(row) * row_bytes;
      std::memcpy(target, target - row_bytes, row_bytes);
      continue;
    }
    const float* total = spread.Get(plane, cover.begin);
    for (int64_t index = cover.begin + 1; index < cover.end; ++index) {
      if (index == cover.begin + 1) std::copy_n(total, width, sum.data());
      const float* const addend = spread.Get(plane, index);
      for (int64_t x = 0; x < width; ++x) sum[static_cast<size_t>(x)] += addend[x];
      total = sum.data();
    }
    for (int64_t x = 0; x < width; ++x) StoreRounded<T>(out, row * width + x, total[x]);
  }
}

template <typename T>
void Compute(const Geometry& geometry, const Launch& launch) {
  const Windows windows(geometry);
  const int64_t grad_rows_per_row = geometry.out_height / geometry.height + 1;
  const int64_t elements_per_row = geometry.width + geometry.out_width * grad_rows_per_row;
  launch.pool.ParallelFor(geometry.planes * geometry.height, kElementsPerPiece / elements_per_row + 1,
                          [&](int64_t begin, int64_t end) { ComputeRows<T>(geometry, windows, launch, begin, end); });
}

void Check(const aclTensor* grad_output_pointer, const aclTensor* self_pointer, const aclTensor* out_pointer) {
  const Product& product = CurrentProduct();
  CheckProduct(product, {"910A", "910B", "910_93", "310P", "950"});

  CheckNotNull("gradOutput", grad_output_pointer);
  CheckNotNull("self", self_pointer);
  CheckNotNull("out", out_pointer);
  const Argument grad_output{"gradOutput", *grad_output_pointer};
  const Argument self{"self", *self_pointer};
  const Argument out{"out", *out_pointer};

  CheckSameRank(grad_output, self);
  CheckNoNegativeDim(grad_output);
  CheckNoNegativeDim(self);

  CheckRank(out, {3, 4});
  CheckSameRank(out, self);
  const int64_t leading = self.tensor.rank() - 2;
  CheckSameLeadingDims(out, self, leading);
  CheckSameLeadingDims(grad_output, self, leading);

  CheckDataType(grad_output, FloatTypes(product));
  CheckDataType(self, FloatTypes(product));
  CheckSameDataType(grad_output, self);

  CheckSameFormat(grad_output, self);
  CheckNotPrivateFormat(grad_output);

  // A device leaves these unchecked and writes out of bounds; here they are errors.
  CheckSameShape(out, self);
  CheckSameDataType(out, self);
  CheckAddressable(grad_output);
  CheckAddressable(out);
}

Plan MakePlan(const aclTensor* grad_output, const aclTensor* self, const aclTensor* out) {
  Check(grad_output, self, out);
  Plan plan;
  if (grad_output->empty() || self->empty()) return plan;

  const Dims& in = self->view_dims;
  const Dims& pooled = grad_output->view_dims;
  const size_t axis = in.size() - 2;
  const int64_t planes = ElementCount(in) / in[axis] / in[axis + 1];
  (void)ElementCount(pooled);
  const Geometry geometry{planes, in[axis], in[axis + 1], pooled[axis], pooled[axis + 1]};
  plan.AddInput(*grad_output);
  plan.AddOutput(*out);
  plan.SetCompute([geometry, type = self->data_type](const Launch& launch) {
    VisitFloatType(type, [&](auto tag) { Compute<typename decltype(tag)::Type>(geometry, launch); });
  });
  return plan;
}

}  // namespace
}  // namespace acl_host

aclnnStatus aclnnAdaptiveAvgPool2dBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                           aclTensor* out, uint64_t* workspaceSize,
                                                           aclOpExecutor** executor) {
  return acl_host::PlanOperator(__func__, workspaceSize, executor,
                                [&] { return acl_host::MakePlan(gradOutput, self, out); });
}

aclnnStatus aclnnAdaptiveAvgPool2dBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                           const aclrtStream stream) {
  return acl_host::RunOperator(__func__, workspace, workspaceSize, executor, stream);
}
