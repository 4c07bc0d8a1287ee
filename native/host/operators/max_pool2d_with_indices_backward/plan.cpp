// aclnnMaxPool2dWithIndicesBackward: its checks and its plan.
#include "families/max_pool/checks.h"
#include "families/max_pool/computation.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

constexpr Products kProducts = {Product::k910B, Product::k910_93, Product::k950};

// Phase 1 of Atlas A2 and A3 also accepts INT8 indices, for which they have no kernel.
MaxPoolRules RulesOf(Product product) {
  if (product != Product::k950) return {{ACL_FLOAT}, {ACL_INT32}, /*takes_dilation=*/false};
  return {FloatTypes(), {ACL_INT32, ACL_INT64}, /*takes_dilation=*/true};
}

}  // namespace

Plan PlanMaxPool2dWithIndicesBackward(const MaxPool2dWithIndicesBackwardArguments& arguments) {
  CheckProduct(kProducts);
  const MaxPoolRules rules = RulesOf(CurrentProduct());
  const MaxPool pool = CheckMaxPool(arguments, rules);
  // A device detects this too late, and computes anyway.
  CheckSameShape({"indices", arguments.indices}, {"gradOutput", arguments.grad_output});
  if (!rules.takes_dilation && pool.input.height > INT32_MAX / pool.input.width) {
    FailShape({"self", arguments.self}, "planes of less than 2^31 cells");
  }
  if (pool.batches == 0) return {};
  return MakeMaxPoolPlan<MaxPoolBackward>(pool, arguments, *arguments.indices);
}

}  // namespace acl_host
