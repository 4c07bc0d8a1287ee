// The gradient is 0 but for one element of each target. So zeros are written to a part that stays in the cache, and
// then the other elements of that part.
#include "families/class_losses/computation.h"

#include <algorithm>
#include <cstring>

#include "tensors/rows.h"

namespace acl_host {
namespace {

// So many bytes stay in the second cache; and the least of a row of cells, because short rows are filled slowly.
constexpr int64_t kPartBytes = 1 << 17;
constexpr int64_t kLeastRowBytes = 1 << 15;

// By value, so that the compiler knows that elements written do not change it.
template <typename T, typename Target>
struct NllGradient {
  NllGradient(const NllLoss& loss, const KernelArguments& arguments)
      : cells(loss.cells),
        labels(loss.targets),
        grads(loss.is_reduced ? nullptr : arguments.inputs[0]),
        targets(arguments.inputs[1]),
        weights(arguments.inputs[2]),
        gradient(arguments.outputs[0]) {
    if (!loss.is_reduced) return;
    const float grad = -WidenElement<T>(arguments.inputs[0], 0);
    factor = loss.is_mean ? grad / WidenElement<T>(arguments.inputs[3], 0) : grad;
  }

  void Clear(int64_t first, int64_t count) const {
    constexpr int64_t kBytes = sizeof(T);
    std::memset(gradient + first * kBytes, 0, static_cast<size_t>(count * kBytes));
  }

  // Writes the gradient of a target, if it is a class, to this element's place, of the class 0.
  void Store(int64_t first, int64_t target) const {
    const int64_t found = ClassOf<Target>(labels, targets, target);
    if (found < 0) return;
    const float of_target = grads == nullptr ? factor : -WidenElement<T>(grads, target);
    RoundElement<T>(gradient, first + found * cells, of_target * WidenElement<T>(weights, found));
  }

  int64_t cells;
  ClassTargets labels;
  const std::byte* grads;
  const std::byte* targets;
  const std::byte* weights;
  std::byte* gradient;
  float factor = 0;
};

// Some samples of one target each.
template <typename T, typename Target>
void MakeRows(const NllGradient<T, Target> gradient, int64_t begin, int64_t end) {
  const int64_t classes = gradient.labels.classes;
  const int64_t part = kPartBytes / int64_t{sizeof(T)} / classes + 1;
  for (int64_t first = begin; first < end; first += part) {
    const int64_t last = std::min(first + part, end);
    gradient.Clear(first * classes, (last - first) * classes);
    for (int64_t sample = first; sample < last; ++sample) gradient.Store(sample * classes, sample);
  }
}

// Cells [first, first + count) of each class of a sample.
template <typename T, typename Target>
void MakeCells(const NllGradient<T, Target> gradient, int64_t sample, int64_t first, int64_t count) {
  const int64_t classes = gradient.labels.classes;
  const int64_t begin = sample * classes * gradient.cells + first;
  if (count == gradient.cells) {
    gradient.Clear(begin, classes * count);
  } else {
    for (int64_t each = 0; each < classes; ++each) gradient.Clear(begin + each * gradient.cells, count);
  }
  for (int64_t i = 0; i < count; ++i) gradient.Store(begin + i, sample * gradient.cells + first + i);
}

template <typename T, typename Target>
void MakeAll(const NllLoss& loss, const KernelArguments& arguments) {
  const NllGradient<T, Target> gradient(loss, arguments);
  const int64_t classes = loss.targets.classes;
  if (loss.cells == 1) {
    return arguments.pool.ParallelFor(loss.samples, Grain(classes),
                                      [&](int64_t begin, int64_t end) { MakeRows(gradient, begin, end); });
  }
  constexpr int64_t kBytes = sizeof(T);
  const int64_t most = std::min(std::max(kPartBytes / classes, kLeastRowBytes) / kBytes, loss.cells);
  const int64_t blocks = (loss.cells - 1) / most + 1;
  arguments.pool.ParallelFor(loss.samples * blocks, Grain(classes * most), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % blocks * most;
      MakeCells(gradient, i / blocks, first, std::min(most, loss.cells - first));
    }
  });
}

}  // namespace

template <>
void NllLossBackward<VECTOR_LEVEL>::Run(const NllLoss& loss, const KernelArguments& arguments) {
  VisitFloatType(loss.type, [&](auto tag) {
    VisitTargetType(loss.targets.type, [&](auto target_tag) {
      MakeAll<typename decltype(tag)::Type, typename decltype(target_tag)::Type>(loss, arguments);
    });
  });
}

}  // namespace acl_host
