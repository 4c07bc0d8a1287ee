// aclnnCrossEntropyLossGrad: its checks and its plan. CANN generates it: data types are checked as a combination
// (161002), and the tiling compares some of the shapes (561002).
#include <algorithm>
#include <string>
#include <vector>

#include "computation.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

constexpr Products kProducts = {Product::k910B, Product::k910_93, Product::k950};

struct Tensors {
  explicit Tensors(const CrossEntropyLossGradArguments& given)
      : grad_loss("gradLoss", given.grad_loss),
        log_prob("logProb", given.log_prob),
        target("target", given.target),
        weight(IfGiven("weightOptional", given.weight_optional)),
        out("out", given.out) {}

  Argument grad_loss;
  Argument log_prob;
  Argument target;
  OptionalArgument weight;
  Argument out;
};

void CheckTypes(const Tensors& tensors) {
  CheckDataType(tensors.grad_loss, FloatTypes());
  CheckSameDataType(tensors.log_prob, tensors.grad_loss);
  std::vector<aclDataType> targets = {ACL_INT64};
  if (CurrentProduct() == Product::k950) targets.push_back(ACL_INT32);
  CheckDataType(tensors.target, targets);
  if (tensors.weight) CheckDataType(*tensors.weight, {ACL_FLOAT});
  CheckSameDataType(tensors.out, tensors.grad_loss);
}

// The tiling compares the first dims of log_prob and target, and the weights with the classes.
void CheckShapes(const Tensors& tensors, bool is_reduced) {
  const Dims& dims = tensors.log_prob.tensor.view_dims;
  CheckRank(tensors.log_prob, {2});
  CheckNoNegativeDim(tensors.log_prob);
  const Dims& targets = tensors.target.tensor.view_dims;
  if (targets.empty() || targets[0] != dims[0]) {
    FailShape(tensors.target, "a target for each row of logProb", ACLNN_ERR_INNER_TILING_ERROR);
  }
  CheckRank(tensors.target, {1});
  if (tensors.weight && tensors.weight->tensor.view_dims != Dims{dims[1]}) {
    FailShape(*tensors.weight, "a weight for each class", ACLNN_ERR_INNER_TILING_ERROR);
  }
  // No device looks at these.
  CheckSameShape(tensors.out, tensors.log_prob);
  const Dims& grads = tensors.grad_loss.tensor.view_dims;
  if (is_reduced ? !(grads.empty() || grads == Dims{1}) : grads != Dims{dims[0]}) {
    FailShape(tensors.grad_loss, is_reduced ? "one number" : "a gradient for each row of logProb");
  }
}

// What devices ignore, and would read otherwise than the caller means it.
void CheckUnused(const CrossEntropyLossGradArguments& given) {
  if (given.grad_zloss_optional != nullptr) FailInvalid("gradZlossOptional: expected null, because no device reads it");
  if (given.lse_for_zloss_optional != nullptr) {
    FailInvalid("lseForZlossOptional: expected null, because no device reads it");
  }
  if (given.lse_square_scale_for_zloss != 0) {
    FailInvalid("lseSquareScaleForZloss: expected 0, got " + std::to_string(given.lse_square_scale_for_zloss));
  }
  if (!(0 <= given.label_smoothing && given.label_smoothing <= 1)) {
    FailInvalid("labelSmoothing: expected from 0 to 1, got " + std::to_string(given.label_smoothing));
  }
}

}  // namespace

Plan PlanCrossEntropyLossGrad(const CrossEntropyLossGradArguments& given) {
  CheckProduct(kProducts);
  const Tensors tensors(given);
  CheckTypes(tensors);
  const std::string reduction = given.reduction_optional == nullptr ? "mean" : given.reduction_optional;
  if (reduction != "none" && reduction != "mean" && reduction != "sum") {
    FailInvalid("reductionOptional: expected none, mean or sum, got " + reduction);
  }
  CheckShapes(tensors, reduction != "none");
  CheckUnused(given);
  Plan plan;
  if (tensors.log_prob.tensor.empty()) return plan;
  plan = PlanOf({tensors.grad_loss, tensors.log_prob, tensors.target}, {tensors.out});
  if (tensors.weight) {
    CheckAddressable(*tensors.weight);
    plan.AddInput(tensors.weight->tensor);
  }
  const Dims& dims = tensors.log_prob.tensor.view_dims;
  const CrossEntropy loss{dims[0],
                          {tensors.target.tensor.data_type, dims[1], given.ignore_index},
                          tensors.log_prob.tensor.data_type,
                          tensors.weight.has_value(),
                          reduction == "mean",
                          reduction != "none",
                          given.label_smoothing};
  if (loss.is_mean) plan.AddScratch(static_cast<uint64_t>(loss.parts()) * sizeof(double));
  plan.PromiseTimeOfBytes();
  plan.SetKernel<CrossEntropyGradient>(loss);
  return plan;
}

}  // namespace acl_host
