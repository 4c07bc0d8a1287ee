// Few elements are read: one of each sample. Sums are in float64.
#include <algorithm>

#include "families/class_losses/computation.h"
#include "plan/scratch.h"
#include "tensors/rows.h"

namespace acl_host {
namespace {

struct Totals {
  double loss;
  double weight;
};

// By value, so that the compiler knows that elements written do not change it.
template <typename T, typename Target>
struct NllSamples {
  NllSamples(const NllLossValues& loss, const KernelArguments& arguments)
      : labels(loss.targets),
        logarithms(arguments.inputs[0]),
        targets(arguments.inputs[1]),
        weights(arguments.inputs[2]) {}

  // Zeros of one whose target is no class.
  [[nodiscard]] Totals Of(int64_t sample) const {
    const int64_t found = ClassOf<Target>(labels, targets, sample);
    if (found < 0) return {0, 0};
    const double weight = WidenElement<T>(weights, found);
    return {-weight * double{WidenElement<T>(logarithms, sample * labels.classes + found)}, weight};
  }

  ClassTargets labels;
  const std::byte* logarithms;
  const std::byte* targets;
  const std::byte* weights;
};

void Write(std::byte* to, aclDataType type, int64_t index, double value) {
  VisitFloatType(type,
                 [&](auto tag) { RoundElement<typename decltype(tag)::Type>(to, index, static_cast<float>(value)); });
}

// A device does not write the total.
template <typename T, typename Target>
void WriteEach(const NllLossValues& loss, const KernelArguments& arguments) {
  const NllSamples<T, Target> samples(loss, arguments);
  VisitFloatType(loss.out, [&, out = arguments.outputs[0]](auto tag) {
    arguments.pool.ParallelFor(loss.samples, Grain(1), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        RoundElement<typename decltype(tag)::Type>(out, i, static_cast<float>(samples.Of(i).loss));
      }
    });
  });
  Write(arguments.outputs[1], loss.total_weight, 0, 0);
}

template <typename T, typename Target>
void WriteReduced(const NllLossValues& loss, const KernelArguments& arguments) {
  auto* const parts = AlignedTo<Totals>(arguments.scratch[0]);
  arguments.pool.ParallelFor(loss.parts(), Grain(NllLossValues::kPart), [&](int64_t begin, int64_t end) {
    const NllSamples<T, Target> samples(loss, arguments);
    for (int64_t part = begin; part < end; ++part) {
      Totals sum{0, 0};
      const int64_t last = std::min(loss.samples, (part + 1) * NllLossValues::kPart);
      for (int64_t i = part * NllLossValues::kPart; i < last; ++i) {
        const Totals of = samples.Of(i);
        sum.loss += of.loss;
        sum.weight += of.weight;
      }
      parts[part] = sum;
    }
  });
  Totals all{0, 0};
  for (int64_t part = 0; part < loss.parts(); ++part) {
    all.loss += parts[part].loss;
    all.weight += parts[part].weight;
  }
  Write(arguments.outputs[0], loss.out, 0, loss.is_mean ? all.loss / all.weight : all.loss);
  Write(arguments.outputs[1], loss.total_weight, 0, all.weight);
}

}  // namespace

template <>
void NllLossForward<VECTOR_LEVEL>::Run(const NllLossValues& loss, const KernelArguments& arguments) {
  VisitFloatType(loss.type, [&](auto tag) {
    VisitTargetType(loss.targets.type, [&](auto target_tag) {
      using T = typename decltype(tag)::Type;
      using Target = typename decltype(target_tag)::Type;
      loss.is_reduced ? WriteReduced<T, Target>(loss, arguments) : WriteEach<T, Target>(loss, arguments);
    });
  });
}

}  // namespace acl_host
