// The plan of a normalisation or its gradients, for tensors that were checked.
#pragma once

#include <cstddef>
#include <optional>

#include "families/normalisation/computation.h"
#include "plan/checks.h"
#include "plan/plan.h"

namespace acl_host {

// Adds operands to a plan, in the order of the calls. What is not given or not wanted has no value.
class NormalisationOperands {
 public:
  explicit NormalisationOperands(Plan& plan) : plan_(plan) {}

  FloatOperand AddInput(const Argument& argument);
  std::optional<FloatOperand> AddInput(const OptionalArgument& argument);
  FloatOperand AddOutput(const Argument& argument);
  std::optional<FloatOperand> AddOutput(const OptionalArgument& argument);

 private:
  Plan& plan_;
  size_t inputs_ = 0;
  size_t outputs_ = 0;
};

// Sets the computation, when all operands were added.
void SetNormalisation(Plan& plan, NormalisationValue norm);
void SetNormalisation(Plan& plan, Normalisation norm);

}  // namespace acl_host
