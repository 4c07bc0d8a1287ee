// The gradient is 0 but for one element of each target. So zeros are written to a part that stays in the cache, and
// then the other elements of that part.
#include "families/class_losses/computation.h"

#include <algorithm>
#include <cstring>

#include "tensors/rows.h"

namespace acl_host {
namespace {

// So many bytes stay in the first two caches; and the least of a row of cells, because short rows are filled slowly.
constexpr int64_t kPartBytes = 1 << 17;
constexpr int64_t kLeastRowBytes = 1 << 12;

template <typename T, typename Target>
class NllGradient {
 public:
  NllGradient(const NllLoss& loss, const KernelArguments& arguments)
      : loss_(loss),
        classes_(loss.targets.classes),
        grads_(arguments.inputs[0]),
        targets_(arguments.inputs[1]),
        weights_(arguments.inputs[2]),
        gradient_(arguments.outputs[0]) {
    if (!loss.is_reduced) return;
    const float grad = -WidenElement<T>(grads_, 0);
    factor_ = loss.is_mean ? grad / WidenElement<T>(arguments.inputs[3], 0) : grad;
  }

  // Elements [begin, end) of samples that have one target each.
  void MakeElements(int64_t begin, int64_t end) const {
    constexpr int64_t kPart = kPartBytes / int64_t{sizeof(T)};
    for (int64_t first = begin; first < end; first += kPart) {
      const int64_t last = std::min(first + kPart, end);
      Clear(first, last - first);
      for (int64_t sample = first / classes_; sample * classes_ < last; ++sample) {
        const int64_t found = ClassOf<Target>(loss_.targets, targets_, sample);
        const int64_t at = sample * classes_ + found;
        if (found >= 0 && first <= at && at < last) Store(at, found, sample);
      }
    }
  }

  // Cells [first, first + count) of each class of a sample.
  void MakeCells(int64_t sample, int64_t first, int64_t count) const {
    const int64_t begin = sample * classes_ * loss_.cells + first;
    if (count == loss_.cells) {
      Clear(begin, classes_ * count);
    } else {
      for (int64_t each = 0; each < classes_; ++each) Clear(begin + each * loss_.cells, count);
    }
    for (int64_t i = 0; i < count; ++i) {
      const int64_t target = sample * loss_.cells + first + i;
      const int64_t found = ClassOf<Target>(loss_.targets, targets_, target);
      if (found >= 0) Store(begin + found * loss_.cells + i, found, target);
    }
  }

 private:
  void Clear(int64_t first, int64_t count) const {
    constexpr int64_t kBytes = sizeof(T);
    std::memset(gradient_ + first * kBytes, 0, static_cast<size_t>(count * kBytes));
  }

  void Store(int64_t at, int64_t of_class, int64_t target) const {
    const float factor = loss_.is_reduced ? factor_ : -WidenElement<T>(grads_, target);
    RoundElement<T>(gradient_, at, factor * WidenElement<T>(weights_, of_class));
  }

  const NllLoss& loss_;
  const int64_t classes_;
  const std::byte* const grads_;
  const std::byte* const targets_;
  const std::byte* const weights_;
  std::byte* const gradient_;
  float factor_ = 0;
};

template <typename T, typename Target>
void MakeAll(const NllLoss& loss, const KernelArguments& arguments) {
  const NllGradient<T, Target> gradient(loss, arguments);
  const int64_t classes = loss.targets.classes;
  if (loss.cells == 1) {
    arguments.pool.ParallelFor(loss.samples * classes, Grain(1),
                               [&](int64_t begin, int64_t end) { gradient.MakeElements(begin, end); });
    return;
  }
  constexpr int64_t kBytes = sizeof(T);
  const int64_t most = std::min(std::max(kPartBytes / classes, kLeastRowBytes) / kBytes, loss.cells);
  const int64_t blocks = (loss.cells - 1) / most + 1;
  arguments.pool.ParallelFor(loss.samples * blocks, Grain(classes * most), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % blocks * most;
      gradient.MakeCells(i / blocks, first, std::min(most, loss.cells - first));
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
