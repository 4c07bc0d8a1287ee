// The operators that are gradients of elementwise functions: their checks, in CANN's order and with CANN's codes.
#include <string>

#include "families/elementwise/plan.h"
#include "operator_plans.h"

namespace acl_host {

Plan PlanSiluBackward(const SiluBackwardArguments& given) {
  const Product& product = CurrentProduct();
  CheckProduct(product, {"910A", "910B", "910_93", "950"});
  const ElementwiseTensors tensors{
      {"gradOutput", given.grad_output}, {"self", given.self}, {"gradInput", given.grad_input}};
  ElementwiseRules rules{FloatTypes(product)};
  rules.broadcasts = std::string(product.name) == "950";
  if (rules.broadcasts && tensors.gradient.tensor.data_type == ACL_FLOAT) rules.fit = Types::kCast;
  CheckElementwise(rules, tensors);
  return MakeElementwisePlan(Function::kSilu, tensors);
}

}  // namespace acl_host
