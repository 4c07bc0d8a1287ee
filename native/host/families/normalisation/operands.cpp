#include "families/normalisation/operands.h"

#include "device/runtime.h"

namespace acl_host {
namespace {

template <template <VectorLevel> class Kernel, typename Norm>
void SetKernel(Plan& plan, Norm norm) {
  norm.threads = Runtime::Current()->config().threads;
  const NormalisationLayout layout(norm, norm.has_sums());
  for (const uint64_t bytes : {layout.sums_bytes, layout.statistics_bytes}) {
    if (bytes > 0) plan.AddScratch(bytes);
  }
  plan.PromiseTimeOfBytes();
  plan.SetKernel<Kernel>(norm, layout);
}

}  // namespace

FloatOperand NormalisationOperands::AddInput(const Argument& argument) {
  CheckAddressable(argument);
  plan_.AddInput(argument.tensor);
  return {inputs_++, argument.tensor.data_type};
}

std::optional<FloatOperand> NormalisationOperands::AddInput(const OptionalArgument& argument) {
  if (!argument) return std::nullopt;
  return AddInput(*argument);
}

FloatOperand NormalisationOperands::AddOutput(const Argument& argument) {
  CheckAddressable(argument);
  plan_.AddOutput(argument.tensor);
  return {outputs_++, argument.tensor.data_type};
}

std::optional<FloatOperand> NormalisationOperands::AddOutput(const OptionalArgument& argument) {
  if (!argument) return std::nullopt;
  return AddOutput(*argument);
}

void SetNormalisation(Plan& plan, NormalisationValue norm) { SetKernel<NormalisationForward>(plan, norm); }

void SetNormalisation(Plan& plan, Normalisation norm) { SetKernel<NormalisationBackward>(plan, norm); }

}  // namespace acl_host
