// The gradient is that of each probability, less the share of the paths that have the class at that step, over the
// probability of all paths. Most classes are no labels and have no such share, so all are computed as if none had, and
// then the others again.
#include "computation.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "operators/ctc_loss_backward/path_sums.h"
#include "plan/scratch.h"
#include "plan/scratch_slots.h"
#include "tensors/exp.h"
#include "tensors/lanes.h"
#include "tensors/rows.h"

namespace acl_host {
namespace {

template <typename T>
class CtcSamples {
 public:
  CtcSamples(const Ctc& ctc, const KernelArguments& arguments)
      : ctc_(ctc),
        grads_(arguments.inputs[0]),
        logs_(arguments.inputs[1]),
        targets_(arguments.inputs[2]),
        losses_(arguments.inputs[3]),
        alphas_(arguments.inputs[4]),
        gradient_(arguments.outputs[0]) {}

  // The classes of a sample at a step, as if they were no labels: NaN if a logarithm or the loss is not finite.
  void MakeRow(int64_t step, int64_t sample) const {
    const int64_t first = RowOf(step, sample);
    if (step >= ctc_.input_lengths[static_cast<size_t>(sample)] || IsZero(sample)) return Clear(first);
    const Wide<T> loss = WidenElement<T>(losses_, sample);
    const Wide<T> grad = WidenElement<T>(grads_, sample);
    if constexpr (std::is_same_v<T, double>) {
      for (int64_t i = first; i < first + ctc_.classes; ++i) {
        const double logarithm = LoadElement<double>(logs_, i);
        StoreElement(gradient_, i, (std::exp(logarithm) + (loss - logarithm) * 0.0) * grad);
      }
    } else {
      ForLanes(ctc_.classes, [&](int64_t i, auto lanes) {
        const FloatLanes logarithms = LoadLanes<T>(logs_, first + i, lanes);
        StoreLanes<T>((Exp(logarithms) + (loss - logarithms) * 0.0F) * grad, gradient_, first + i, lanes);
      });
    }
  }

  // The classes of a sample that are labels, at all of its steps.
  void MakeLabels(int64_t sample, std::byte* scratch) const {
    const auto index = static_cast<size_t>(sample);
    const auto loss = double{WidenElement<T>(losses_, sample)};
    if (!ctc_.has_paths(index) || !std::isfinite(loss)) return;
    const auto grad = double{WidenElement<T>(grads_, sample)};
    const int64_t steps = ctc_.input_lengths[index];
    if (HasWrongLabels(index)) {
      for (int64_t step = 0; step < steps; ++step) Clear(RowOf(step, sample));
      return;
    }
    PathSums sums(scratch, ctc_.target_lengths[index]);
    sums.Begin(ctc_.blank, [&](int64_t i) { return LabelAt(ctc_.first_labels[index] + i); });
    for (int64_t step = steps - 1; step >= 0; --step) {
      const int64_t row = RowOf(step, sample);
      const int64_t places = (sample * ctc_.steps + step) * ctc_.places;
      const auto logarithm = [&](int64_t of_class) { return double{WidenElement<T>(logs_, row + of_class)}; };
      sums.Step(logarithm, [&](int64_t place) { return double{WidenElement<T>(alphas_, places + place)} + loss; });
      for (const LabelClass& each : sums) {
        if (each.probability.mantissa == 0) continue;  // it has no share
        const double probability = std::ldexp(each.probability.mantissa, static_cast<int>(each.probability.exponent));
        RoundElement<T>(gradient_, row + each.number, static_cast<Wide<T>>((probability - each.share) * grad));
      }
    }
  }

 private:
  static constexpr int64_t kBytes = sizeof(T);

  [[nodiscard]] int64_t RowOf(int64_t step, int64_t sample) const {
    return (step * ctc_.samples + sample) * ctc_.classes;
  }

  void Clear(int64_t first) const {
    std::memset(gradient_ + first * kBytes, 0, static_cast<size_t>(ctc_.classes * kBytes));
  }

  // Whether a target is no class: then a sample's gradient is 0.
  [[nodiscard]] bool HasWrongLabels(size_t sample) const {
    for (int64_t i = 0; i < ctc_.target_lengths[sample]; ++i) {
      if (LabelAt(ctc_.first_labels[sample] + i) < 0) return true;
    }
    return false;
  }

  [[nodiscard]] bool IsZero(int64_t sample) const {
    constexpr auto kInfinity = std::numeric_limits<Wide<T>>::infinity();
    return ctc_.zero_infinity && WidenElement<T>(losses_, sample) == kInfinity;
  }

  // -1 if it is no class.
  [[nodiscard]] int64_t LabelAt(int64_t index) const {
    int64_t label = -1;
    VisitNumberType(ctc_.target_type == ACL_BOOL ? ACL_UINT8 : ctc_.target_type, [&](auto tag) {
      using Label = typename decltype(tag)::Type;
      if constexpr (std::is_arithmetic_v<Wide<Label>>) {
        const auto number = LoadWide<Label>(targets_, index);
        if (number >= 0 && static_cast<double>(number) < static_cast<double>(ctc_.classes)) {
          label = static_cast<int64_t>(number);
        }
      }
    });
    return label;
  }

  const Ctc& ctc_;
  const std::byte* const grads_;
  const std::byte* const logs_;
  const std::byte* const targets_;
  const std::byte* const losses_;
  const std::byte* const alphas_;
  std::byte* const gradient_;
};

template <typename T>
void MakeAll(const Ctc& ctc, const KernelArguments& arguments) {
  const CtcSamples<T> samples(ctc, arguments);
  arguments.pool.ParallelFor(ctc.steps * ctc.samples, Grain(ctc.classes), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) samples.MakeRow(i / ctc.samples, i % ctc.samples);
  });
  ScratchSlots slots(AlignedTo<std::byte>(arguments.scratch[0], alignof(double)), ctc.slots, ctc.slot_bytes);
  arguments.pool.ParallelFor(ctc.samples, 1, [&](int64_t begin, int64_t end) {
    const ScratchSlots::Lease slot(slots);
    for (int64_t sample = begin; sample < end; ++sample) samples.MakeLabels(sample, slot.memory());
  });
}

}  // namespace

template <>
void CtcGradient<VECTOR_LEVEL>::Run(const Ctc& ctc, const KernelArguments& arguments) {
  if (ctc.type == ACL_DOUBLE) return MakeAll<double>(ctc, arguments);
  VisitFloatType(ctc.type, [&](auto tag) { MakeAll<typename decltype(tag)::Type>(ctc, arguments); });
}

}  // namespace acl_host
