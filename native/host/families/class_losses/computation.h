// The negative log likelihood of classes, and its gradient.
#pragma once

#include <cstdint>

#include "acl/acl_base.h"
#include "families/class_losses/targets.h"
#include "plan/plan.h"
#include "plan/vector_levels.h"

namespace acl_host {

// The gradient has the classes of each sample, and the cells of each class; each cell of a sample has a target.
struct NllLoss {
  int64_t samples;
  int64_t cells;
  ClassTargets targets;
  aclDataType type;
  bool is_mean;
  bool is_reduced;  // otherwise each target has a gradient
};

// The losses of samples, or their mean or sum. The logarithms and weights are of one type.
struct NllLossValues {
  int64_t samples;
  ClassTargets targets;
  aclDataType type;
  aclDataType out;
  aclDataType total_weight;
  bool is_mean;
  bool is_reduced;

  // Into how many parts a sum is cut, whose totals are added in order.
  static constexpr int64_t kPart = 4096;
  [[nodiscard]] int64_t parts() const { return (samples - 1) / kPart + 1; }
};

// self, target and weight -> out and totalWeight. The scratch memory has two doubles for each part, if the losses are
// reduced.
template <VectorLevel>
struct NllLossForward {
  static void Run(const NllLossValues& loss, const KernelArguments& arguments);
};

// gradOutput, target, weight and totalWeight -> the gradient.
template <VectorLevel>
struct NllLossBackward {
  static void Run(const NllLoss& loss, const KernelArguments& arguments);
};

}  // namespace acl_host
