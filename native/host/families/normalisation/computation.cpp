// With normalised = (input - mean) * rstd and g = gradOut * weight, over all elements of the same mean
//
//   gradInput = rstd * (g - mean(g) - normalised * mean(g * normalised))
//
// and for each weight gradWeight = sum(gradOut * normalised), gradBias = sum(gradOut). Elements that were not centred
// (RMS norm) have neither mean nor mean(g). If mean and rstd are constants, gradInput = rstd * g.
//
// All is computed in float32 and rounded once, but for sums of sums, which are in float64. Their order depends on the
// shape alone, so the result depends neither on the vectors nor on the number of threads.
#include "families/normalisation/computation.h"

#include "families/normalisation/over_samples.h"
#include "families/normalisation/tasks.h"
#include "families/normalisation/within_samples.h"

namespace acl_host {
namespace {

// Writes the gradients of the parameters from the sums of all chunks.
void AddChunks(const Normalisation& norm, const NormalisationLayout& layout, const KernelArguments& arguments) {
  const Table sums{arguments.scratch.front(), 0, layout.slots};
  const int64_t elements = layout.chunks * layout.slots_of_channel;
  arguments.pool.ParallelFor(norm.channels, Grain(elements), [&](int64_t begin, int64_t end) {
    WriteParameters(norm, layout, arguments, sums, begin, end);
  });
}

}  // namespace

template <>
void NormalisationBackward<VECTOR_LEVEL>::Run(const Normalisation& norm, const NormalisationLayout& layout,
                                              const KernelArguments& arguments) {
  VisitFloatType(norm.grad_out.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    norm.over_samples() ? MakeAll<OverSamples<T>>(norm, layout, arguments)
                        : MakeAll<WithinSamples<T>>(norm, layout, arguments);
  });
  if (!norm.over_samples() && layout.sums_bytes > 0) AddChunks(norm, layout, arguments);
}

}  // namespace acl_host
