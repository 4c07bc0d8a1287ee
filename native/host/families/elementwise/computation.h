// Functions of each element by itself, and their gradients. The operators differ in their formulas and their checks.
// This is what both have in common, and the gradients; operations.h has the functions.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "acl/acl_base.h"
#include "plan/plan.h"
#include "plan/vector_levels.h"

namespace acl_host {

// What is differentiated; activations.h and losses.h have the gradients.
enum class Function {
  kSilu,
  kSigmoid,
  kTanh,
  kLeakyRelu,
  kHardswish,
  kThreshold,
  kGelu,
  kGeluTanh,
  kElu,
  kEluOfResult,
  kSoftplus,
  kHardtanh,
  kHardsigmoid,
  kMish,
  kLogSigmoid,
  kShrink,
  kMseLoss,
  kL1Loss,
  kSmoothL1Loss,
  kBinaryCrossEntropy,
  kBinaryCrossEntropyWithLogits,
  kWeightedBinaryCrossEntropyWithLogits,
  kKlDiv,
  kKlDivOfLogTarget,
};

// The parameters of a function, in the order of its gradient's members.
using Parameters = std::array<float, 3>;

// An input as it lies beside the result.
struct ElementwiseInput {
  aclDataType type;
  bool is_given = true;                       // else it is ones
  aclDataType rounded_to = ACL_DT_UNDEFINED;  // the type of 16 bits whose numbers stand for those of an integer type
  // Of the view that is broadcast to the result, with few axes; empty if its elements lie as those of the result.
  Dims dims{};
  Dims strides{};
  int64_t period = 0;  // after so many elements of the result, those of the view come again
};

// Inputs -> the result, each of a type of its own.
struct Elementwise {
  std::vector<ElementwiseInput> inputs;
  aclDataType result;
  aclDataType promoted;  // of the inputs: integers wrap around in its range
  aclDataType computed;  // the type of the formula's numbers, which holds those of the inputs
  int64_t count;         // elements of the result
  bool is_alike;         // all are of one type, whose elements the formula takes
};

// The gradient, of gradOutput, what the function saved, and more inputs if it has them.
template <VectorLevel>
struct ElementwiseBackward {
  static void Run(const Elementwise& work, Function function, const Parameters& parameters,
                  const KernelArguments& arguments);
};

}  // namespace acl_host
