// The gradient of the cross entropy of classes, with smoothed labels.
#pragma once

#include <cstdint>

#include "acl/acl_base.h"
#include "families/class_losses/targets.h"
#include "plan/plan.h"
#include "plan/vector_levels.h"

namespace acl_host {

struct CrossEntropy {
  int64_t samples;
  ClassTargets targets;
  aclDataType type;
  bool has_weights;
  bool is_mean;
  bool is_reduced;  // otherwise each sample has a gradient
  double smoothing;

  // The weights of the targets are added up in parts.
  static constexpr int64_t kPart = 1 << 14;
  [[nodiscard]] int64_t parts() const { return (samples - 1) / kPart + 1; }
};

// gradLoss, logProb, target and, if there are any, weights -> the gradient of the logits. Its scratch has a double for
// each part, if a mean is taken.
template <VectorLevel>
struct CrossEntropyGradient {
  static void Run(const CrossEntropy& loss, const KernelArguments& arguments);
};

}  // namespace acl_host
