// With the mean and the variance of all elements of the same mean
//
//   normalised = (input - mean) / sqrt(variance + eps), out = normalised * weight + bias
//
// All is computed in float32 and rounded once. Moments of parts of up to 8192 elements are in float32 and those of all
// in float64, in an order that depends on the shape alone.
#include "families/normalisation/computation.h"
#include "families/normalisation/tasks.h"
#include "families/normalisation/values_over_samples.h"
#include "families/normalisation/values_within_samples.h"

namespace acl_host {

template <>
void NormalisationForward<VECTOR_LEVEL>::Run(const NormalisationValue& norm, const NormalisationLayout& layout,
                                             const KernelArguments& arguments) {
  VisitFloatType(norm.input.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    norm.over_samples() ? MakeAll<ValuesOverSamples<T>>(norm, layout, arguments)
                        : MakeAll<ValuesWithinSamples<T>>(norm, layout, arguments);
  });
}

}  // namespace acl_host
