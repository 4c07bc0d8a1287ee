// Losses of each element by itself, and their mean and their sum.
#pragma once

#include <cstdint>
#include <vector>

#include "acl/acl_base.h"
#include "families/elementwise/computation.h"
#include "plan/plan.h"
#include "plan/vector_levels.h"

namespace acl_host {

enum class LossFunction { kMse, kSmoothL1, kCrossEntropyOfLogits, kWeightedCrossEntropyOfLogits };

enum class LossReduction { kNone, kMean, kSum };

// The input and the target, and weights if the function has them; all of floats of up to 32 bits.
struct Loss {
  LossFunction function;
  LossReduction reduction;
  std::vector<ElementwiseInput> inputs;
  aclDataType out;
  int64_t count;  // elements of the losses
  bool is_alike;  // all inputs, and losses that are not reduced, are of one type
  float beta;     // of kSmoothL1

  // Into how many parts a sum is cut, whose totals are added in order. It depends on the number of losses alone.
  static constexpr int64_t kPart = 65536;
  [[nodiscard]] int64_t parts() const { return (count - 1) / kPart + 1; }
};

// The scratch memory has a double for each part, if the losses are reduced.
template <VectorLevel>
struct LossValues {
  static void Run(const Loss& loss, const KernelArguments& arguments);
};

}  // namespace acl_host
