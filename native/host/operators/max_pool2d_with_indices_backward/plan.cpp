// aclnnMaxPool2dWithIndicesBackward: its checks and its plan.
#include <cstring>

#include "computation.h"
#include "families/max_pool/checks.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

// Phase 1 of Atlas A2 and A3 also accepts INT8 indices, for which they have no kernel.
MaxPoolRules RulesOf(const Product& product) {
  if (std::strcmp(product.name, "950") != 0) return {{ACL_FLOAT}, {ACL_INT32}, /*takes_dilation=*/false};
  return {FloatTypes(product), {ACL_INT32, ACL_INT64}, /*takes_dilation=*/true};
}

}  // namespace

Plan PlanMaxPool2dWithIndicesBackward(const MaxPool2dWithIndicesBackwardArguments& arguments) {
  const Product& product = CurrentProduct();
  CheckProduct(product, {"910B", "910_93", "950"});
  const MaxPoolRules rules = RulesOf(product);
  const MaxPool pool = CheckMaxPool(arguments, rules);
  // A device detects this too late, and computes anyway.
  CheckSameShape({"indices", arguments.indices}, {"gradOutput", arguments.grad_output});
  if (!rules.takes_dilation && pool.input.height > INT32_MAX / pool.input.width) {
    FailInvalid("self: expected planes of less than 2^31 cells, got shape " + DimsText(arguments.self->view_dims));
  }
  Plan plan;
  if (pool.batches == 0) return plan;

  plan.AddInput(*arguments.grad_output);
  plan.AddInput(*arguments.indices);
  plan.AddOutput(*arguments.grad_input);
  const int64_t slots = AddSums(plan, pool, static_cast<int64_t>(aclDataTypeSize(arguments.self->data_type)));
  plan.PromiseTimeOfBytes();
  plan.SetCompute([run = AtVectorLevel<MaxPool2dWithIndicesBackward>(), pool, slots, type = arguments.self->data_type,
                   index_type = arguments.indices->data_type](const KernelArguments& launch) {
    run(pool, type, index_type, slots, launch);
  });
  return plan;
}

}  // namespace acl_host
