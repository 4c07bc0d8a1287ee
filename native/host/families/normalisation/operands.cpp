#include "families/normalisation/operands.h"

#include "device/runtime.h"

namespace acl_host {

FloatOperand NormalisationOperands::AddInput(const Argument& argument) {
  CheckAddressable(argument);
  plan_.AddInput(argument.tensor);
  return {inputs_++, argument.tensor.data_type};
}

std::optional<FloatOperand> NormalisationOperands::AddInput(const OptionalArgument& argument) {
  if (!argument) return std::nullopt;
  return AddInput(*argument);
}

std::optional<FloatOperand> NormalisationOperands::AddOutput(const OptionalArgument& argument) {
  if (!argument) return std::nullopt;
  CheckAddressable(*argument);
  plan_.AddOutput(argument->tensor);
  return FloatOperand{outputs_++, argument->tensor.data_type};
}

void SetNormalisation(Plan& plan, Normalisation norm) {
  norm.threads = Runtime::Current()->config().threads;
  const NormalisationLayout layout(norm);
  for (const uint64_t bytes : {layout.sums_bytes, layout.statistics_bytes}) {
    if (bytes > 0) plan.AddScratch(bytes);
  }
  plan.PromiseTimeOfBytes();
  plan.SetCompute([run = AtVectorLevel<NormalisationBackward>(), norm, layout](const KernelArguments& arguments) {
    run(norm, layout, arguments);
  });
}

}  // namespace acl_host
