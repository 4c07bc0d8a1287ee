// aclnnEmbeddingDenseBackward: its checks and its plan.
#include <limits>
#include <string>

#include "computation.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

// Returns the sizes.
Embedding CheckShapes(const Argument& grad, const Argument& indices, const Argument& out, uint64_t weights) {
  for (const Argument& each : {grad, indices, out}) {
    CheckMostDims(each);
    CheckNoNegativeDim(each);
  }
  const Dims& dims = grad.tensor.view_dims;
  // No device looks at it.
  if (dims.empty()) FailInvalid("grad: expected at least one dim, got a scalar");
  if (weights > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    FailInvalid("numWeights: expected less than 2^63, got " + std::to_string(weights));
  }
  Embedding embedding{};
  embedding.blocks.columns = dims.back();
  embedding.blocks.count = ElementCount(indices.tensor.view_dims);
  embedding.blocks.rows = static_cast<int64_t>(weights);
  const int64_t rows = ElementCount(Dims(dims.begin(), dims.end() - 1));
  if (embedding.blocks.columns != 0 && rows != embedding.blocks.count) {
    FailShape(grad, "a row for each of " + std::to_string(embedding.blocks.count) + " indices");
  }
  CheckShape(out, "numWeights rows of the last dim of grad", {embedding.blocks.rows, embedding.blocks.columns});
  for (const Argument& each : {grad, indices, out}) CheckNotPrivateFormat(each);
  return embedding;
}

}  // namespace

Plan PlanEmbeddingDenseBackward(const EmbeddingDenseBackwardArguments& given) {
  CheckProduct(kNot310P);
  const Argument grad{"grad", given.grad};
  const Argument indices{"indices", given.indices};
  const Argument out{"out", given.out};
  CheckDataType(grad, FloatTypes());
  CheckDataType(indices,
                {ACL_FLOAT16, ACL_FLOAT, ACL_DOUBLE, ACL_INT8, ACL_UINT8, ACL_INT16, ACL_INT32, ACL_INT64, ACL_BOOL});
  CheckDataType(out, FloatTypes());
  Embedding embedding = CheckShapes(grad, indices, out, given.num_weights);

  Plan plan;
  if (out.tensor.empty()) return plan;
  for (const Argument& each : {grad, indices, out}) CheckAddressable(each);
  plan.AddOutput(out.tensor);
  plan.PromiseTimeOfBytes();
  if (embedding.blocks.count == 0) {
    plan.SetZeros();
    return plan;
  }
  plan.AddInput(grad.tensor);
  plan.AddInput(indices.tensor);
  // op-plugin passes a negative number, which is none, in the bits of this one.
  embedding.padding = static_cast<int64_t>(given.padding_idx);
  embedding.scales = given.scale_grad_by_freq;
  embedding.grad = {0, grad.tensor.data_type};
  const aclDataType index_type = indices.tensor.data_type;
  embedding.index_type = index_type == ACL_BOOL ? ACL_UINT8 : index_type;
  embedding.out = {0, out.tensor.data_type};
  if (const auto numbers = static_cast<uint64_t>(embedding.blocks.numbers()); numbers > 0) {
    plan.AddScratch(numbers * sizeof(int64_t));
  }
  plan.SetKernel<EmbeddingDenseBackward>(embedding);
  return plan;
}

}  // namespace acl_host
