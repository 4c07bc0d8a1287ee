// aclnnMaxPool2dWithMaskBackward: every cell of the gradient is the sum of gradOutput over the windows that chose it.
//
// Sums are made in float32, windows in row-major order, and rounded once to the data type. Each plane is made by one
// thread, so the result does not depend on the number of threads.
#include <algorithm>
#include <cstring>

#include "aclnnop/aclnn_max_pool2d_with_indices_backward.h"
#include "checks.h"
#include "elements.h"
#include "executor.h"
#include "max_pool_checks.h"
#include "runtime.h"
#include "scratch_slots.h"

namespace acl_host {
namespace {

constexpr int64_t kElementsPerPiece = 32768;

// The part of a window that lies on the input: what its padding covers holds no cell.
struct Window {
  Window(const MaxPool& pool, int64_t row, int64_t column)
      : top(row * pool.stride.height - pool.padding.height),
        left(column * pool.stride.width - pool.padding.width),
        bottom(top + std::min(pool.kernel.height, pool.input.height - top)),
        right(left + std::min(pool.kernel.width, pool.input.width - left)) {}

  [[nodiscard]] bool Contains(int64_t y, int64_t x) const {
    return top <= y && y < bottom && left <= x && x < right && y >= 0 && x >= 0;
  }

  int64_t top;
  int64_t left;
  int64_t bottom;
  int64_t right;
};

// Calls visit(window, position) for the windows of a plane, in order.
template <typename Visit>
void ForWindows(const MaxPool& pool, const Visit& visit) {
  for (int64_t row = 0; row < pool.output.height; ++row) {
    for (int64_t column = 0; column < pool.output.width; ++column) {
      visit(Window(pool, row, column), row * pool.output.width + column);
    }
  }
}

// The layout of 910B and 910_93 for windows larger than 1x1: one INT32 for each window, the chosen cell's position in
// its plane.
struct ArgmaxLayout {
  const MaxPool& pool;
  const std::byte* indices;

  // Calls add(cell, position) for what each window of the plane chose. Values that are no cell of their own window
  // choose nothing: a device compares the cells of a window with the value and finds none.
  template <typename Add>
  void ForChosenCells(int64_t plane, const Add& add) const {
    const int64_t first = plane * pool.output.height * pool.output.width;
    ForWindows(pool, [&](const Window& window, int64_t position) {
      const int64_t cell = LoadElement<int32_t>(indices, first + position);
      if (cell >= 0 && window.Contains(cell / pool.input.width, cell % pool.input.width)) add(cell, position);
    });
  }
};

// The layout of 910A, and of 1x1 windows everywhere: UINT16 words [N, C / 16, kH * kW, positions / 16 + 1, 16], where
// bit c of a word tells whether channel c of its 16 chose this cell of the window at this position.
struct MaskLayout {
  const MaxPool& pool;
  const std::byte* indices;

  template <typename Add>
  void ForChosenCells(int64_t plane, const Add& add) const {
    const int64_t batch = plane / pool.channels;
    const int64_t channel = plane % pool.channels;
    const int64_t bit = int64_t{1} << (channel % kMaskChannels);
    const int64_t cells = pool.kernel.height * pool.kernel.width;
    const int64_t words_per_cell = MaskWordsPerCell(pool);
    const int64_t first = (batch * MaskChannelGroups(pool) + channel / kMaskChannels) * cells * words_per_cell;
    ForWindows(pool, [&](const Window& window, int64_t position) {
      int64_t word = first + position;
      for (int64_t y = window.top; y < window.top + pool.kernel.height; ++y) {
        for (int64_t x = window.left; x < window.left + pool.kernel.width; ++x, word += words_per_cell) {
          const bool chosen = (LoadElement<uint16_t>(indices, word) & bit) != 0;
          if (chosen && window.Contains(y, x)) add(y * pool.input.width + x, position);
        }
      }
    });
  }
};

template <typename T, typename Layout>
void ComputePlanes(const MaxPool& pool, const Layout& layout, const Launch& launch, std::byte* sums, int64_t begin,
                   int64_t end) {
  const int64_t cells = pool.input.height * pool.input.width;
  const int64_t positions = pool.output.height * pool.output.width;
  for (int64_t plane = begin; plane < end; ++plane) {
    std::memset(sums, 0, static_cast<size_t>(cells) * sizeof(float));
    layout.ForChosenCells(plane, [&](int64_t cell, int64_t position) {
      const float sum = LoadElement<float>(sums, cell) + LoadWide<T>(launch.inputs[0], plane * positions + position);
      StoreElement(sums, cell, sum);
    });
    for (int64_t cell = 0; cell < cells; ++cell) {
      StoreRounded<T>(launch.outputs[0], plane * cells + cell, LoadElement<float>(sums, cell));
    }
  }
}

// The sums of one plane; the workspace holds as many of them as planes can be worked on at once.
uint64_t SlotBytes(const MaxPool& pool) {
  return static_cast<uint64_t>(pool.input.height * pool.input.width) * sizeof(float);
}

template <typename Layout>
void Compute(const MaxPool& pool, aclDataType type, int64_t slot_count, const Launch& launch) {
  const Layout layout{pool, launch.inputs[1]};
  ScratchSlots slots(launch.scratch[0], slot_count, SlotBytes(pool));
  const int64_t elements_per_plane = pool.input.height * pool.input.width + pool.output.height * pool.output.width;
  VisitFloatType(type, [&](auto tag) {
    launch.pool.ParallelFor(
        pool.batches * pool.channels, kElementsPerPiece / elements_per_plane + 1, [&](int64_t begin, int64_t end) {
          const ScratchSlots::Lease sums(slots);
          ComputePlanes<typename decltype(tag)::Type>(pool, layout, launch, sums.memory(), begin, end);
        });
  });
}

Plan MakePlan(const MaxPoolArguments& arguments) {
  const MaxPool pool = CheckMaxPool(arguments);
  Plan plan;
  if (pool.batches == 0) return plan;

  const bool argmax = UsesArgmax(CurrentProduct(), pool);
  plan.AddInput(*arguments.grad_output);
  plan.AddInput(argmax ? ArgmaxTensor(*arguments.indices, pool) : MaskTensor(*arguments.indices, pool));
  plan.AddOutput(*arguments.grad_input);
  const int64_t slots = std::min<int64_t>(pool.batches * pool.channels, Runtime::Current()->config().threads);
  uint64_t slots_bytes = 0;
  if (__builtin_mul_overflow(SlotBytes(pool), static_cast<uint64_t>(slots), &slots_bytes)) {
    FailInvalid("self: there is no workspace for planes of shape " + DimsText(arguments.self->view_dims));
  }
  plan.AddScratch(slots_bytes);
  plan.SetCompute([pool, argmax, slots, type = arguments.self->data_type](const Launch& launch) {
    argmax ? Compute<ArgmaxLayout>(pool, type, slots, launch) : Compute<MaskLayout>(pool, type, slots, launch);
  });
  return plan;
}

}  // namespace
}  // namespace acl_host

aclnnStatus aclnnMaxPool2dWithMaskBackwardGetWorkspaceSize(const aclTensor* gradOutput, const aclTensor* self,
                                                           const aclTensor* indices, const aclIntArray* kernelSize,
                                                           const aclIntArray* stride, const aclIntArray* padding,
                                                           const aclIntArray* dilation, bool ceilMode,
                                                           aclTensor* gradInput, uint64_t* workspaceSize,
                                                           aclOpExecutor** executor) {
  return acl_host::PlanOperator(__func__, workspaceSize, executor, [&] {
    return acl_host::MakePlan({gradOutput, self, indices, kernelSize, stride, padding, dilation, ceilMode, gradInput});
  });
}

aclnnStatus aclnnMaxPool2dWithMaskBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                           aclrtStream stream) {
  return acl_host::RunOperator(__func__, workspace, workspaceSize, executor, stream);
}
