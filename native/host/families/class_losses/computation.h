// The gradient of the negative log likelihood of classes.
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

// gradOutput, target, weight and totalWeight -> the gradient.
template <VectorLevel>
struct NllLossBackward {
  static void Run(const NllLoss& loss, const KernelArguments& arguments);
};

}  // namespace acl_host
