// Attention and its gradients: their plans.
#include "device/runtime.h"
#include "families/attention/checks.h"
#include "operator_plans.h"

namespace acl_host {
namespace {

constexpr Products kProducts = {Product::k910B, Product::k910_93, Product::k950};
// What the exponential of a score takes, as products.
constexpr double kProductsOfScore = 16;

double ScoresOf(const Attention& attention) {
  return static_cast<double>(attention.batches) * static_cast<double>(attention.heads) *
         static_cast<double>(attention.rows) * static_cast<double>(attention.keys);
}

// The rows of a tensor have to be side by side in memory; others are copied.
void AddOperand(Plan& plan, const Argument& argument) {
  CheckAddressable(argument);
  const aclTensor& tensor = argument.tensor;
  if (tensor.view_dims.back() == 1 || tensor.strides.back() == 1) {
    plan.AddStridedInput(tensor);
  } else {
    plan.AddInput(tensor);
  }
}

void AddOperand(Plan& plan, const OptionalArgument& argument) {
  if (argument) AddOperand(plan, *argument);
}

void AddResult(Plan& plan, const Argument& argument) {
  CheckAddressable(argument);
  plan.AddOutput(argument.tensor);
}

void AddScratch(Plan& plan, const AttentionBlocks& blocks) {
  plan.AddScratch(static_cast<uint64_t>(blocks.slots * blocks.slot_bytes + kAttentionAlignment));
}

bool IsEmpty(const Attention& attention) {
  return attention.batches == 0 || attention.heads == 0 || attention.rows == 0 || attention.keys == 0 ||
         attention.depth == 0 || attention.value_depth == 0;
}

// Without keys there are only zeros; without anything else, the interface refuses what is not empty.
Plan MakeZeros(const Attention& attention, std::initializer_list<Argument> outputs) {
  if (attention.batches == 0 || attention.rows == 0 || attention.depth == 0) {
    throw OperatorError(kRefusedInside, "query: expected no dim of 0 beside an output with elements");
  }
  Plan plan;
  for (const Argument& each : outputs) {
    if (!each.tensor.empty()) AddResult(plan, each);
  }
  plan.SetZeros();
  return plan;
}

template <typename Arguments>
AttentionNumbers NumbersOf(const Arguments& given, int64_t pse_type) {
  return {given.keep_prob, given.sparse_mode, pse_type};
}

template <typename Arguments>
Plan ValuesOf(const Arguments& given, int64_t pse_type) {
  CheckProduct(kProducts);
  const AttentionTensors tensors{{"query", given.query},
                                 {"key", given.key},
                                 {"value", given.value},
                                 IfGiven("attenMaskOptional", given.atten_mask_optional),
                                 IfGiven("realShiftOptional", given.real_shift_optional)};
  static_cast<void>(Required<OperatorError>(given.input_layout, "inputLayout"));
  const Argument largest{"softmaxMaxOut", given.softmax_max_out};
  const Argument sum{"softmaxSumOut", given.softmax_sum_out};
  const Argument result{"attentionOutOut", given.attention_out_out};
  if (largest.tensor.empty() && sum.tensor.empty() && result.tensor.empty()) return {};
  CheckTypes(tensors);
  if (tensors.bias) CheckSameDataType(*tensors.bias, tensors.query);
  if (given.head_num <= 0) FailInvalid("headNum: expected more than 0, got " + std::to_string(given.head_num));
  const AttentionLayout layout(given.input_layout, given.head_num);
  CheckOperands(tensors, layout);
  Attention attention = AttentionOf(tensors, layout, given.scale_value);
  CheckResult(result, attention, tensors, layout);
  for (const Argument& each : {largest, sum}) CheckStatistic(each, attention);
  if (IsEmpty(attention)) return MakeZeros(attention, {largest, sum, result});
  AddOptional(attention, tensors, NumbersOf(given, pse_type));
  attention.output = layout.StridesOf(ContiguousStrides(result.tensor.view_dims), attention.value_depth);

  Plan plan;
  for (const Argument* each : {&tensors.query, &tensors.key, &tensors.value}) AddOperand(plan, *each);
  if (attention.mask) AddOperand(plan, tensors.mask);
  AddOperand(plan, tensors.bias);
  for (const Argument& each : {largest, sum, result}) AddResult(plan, each);
  const AttentionBlocks blocks = BlocksOf(attention, Runtime::Current()->config().threads);
  AddScratch(plan, blocks);
  plan.PromiseTimeOfProducts(ScoresOf(attention) *
                             (static_cast<double>(attention.depth + attention.value_depth) + kProductsOfScore));
  plan.SetKernel<AttentionValues>(attention, blocks);
  return plan;
}

template <typename Arguments>
Plan GradientsOf(const Arguments& given, int64_t pse_type) {
  CheckProduct(kProducts);
  const Argument query{"query", given.query}, key{"keyIn", given.key_in}, value{"value", given.value};
  const Argument gradient{"dy", given.dy};
  const Argument result{"attentionInOptional", given.attention_in_optional};
  const Argument grad_query{"dqOut", given.dq_out}, grad_key{"dkOut", given.dk_out}, grad_value{"dvOut", given.dv_out};
  if (grad_query.tensor.empty() && grad_key.tensor.empty() && grad_value.tensor.empty()) return {};
  if (given.head_num <= 0) FailInvalid("headNum: expected more than 0, got " + std::to_string(given.head_num));
  const AttentionTensors tensors{query, key, value, IfGiven("attenMaskOptional", given.atten_mask_optional),
                                 IfGiven("pseShiftOptional", given.pse_shift_optional)};
  const AttentionLayout layout(given.input_layout, given.head_num);
  CheckTypes(tensors);
  CheckOperands(tensors, layout);
  for (const Argument* each : {&gradient, &result, &grad_query, &grad_key, &grad_value}) {
    CheckSameDataType(*each, query);
  }
  AttentionGradient work{AttentionOf(tensors, layout, given.scale_value), {}, {}, {}, {}, {}, {}};
  Attention& attention = work.forward;
  CheckShape(gradient, "that of query with heads of value", ResultDims(attention, tensors, layout));
  CheckSameShape(result, gradient);
  CheckSameShape(grad_query, query);
  CheckSameShape(grad_key, key);
  CheckSameShape(grad_value, value);
  if (IsEmpty(attention)) return MakeZeros(attention, {grad_query, grad_key, grad_value});
  AddOptional(attention, tensors, NumbersOf(given, pse_type));
  const Argument largest{"softmaxMaxOptional", given.softmax_max_optional};
  const Argument sum{"softmaxSumOptional", given.softmax_sum_optional};
  for (const Argument& each : {largest, sum}) CheckStatistic(each, attention);

  Plan plan;
  for (const Argument* each : {&query, &key, &value, &gradient}) AddOperand(plan, *each);
  for (const Argument* each : {&largest, &sum}) {
    CheckAddressable(*each);
    plan.AddStridedInput(each->tensor);
  }
  AddOperand(plan, result);
  if (attention.mask) AddOperand(plan, tensors.mask);
  AddOperand(plan, tensors.bias);
  for (const Argument* each : {&grad_query, &grad_key, &grad_value}) AddResult(plan, *each);
  const auto strides = [&](const Argument& argument, int64_t depth) {
    return layout.StridesOf(RowsSideBySide(argument.tensor).strides, depth);
  };
  const auto row_major = [&](const Argument& argument, int64_t depth) {
    return layout.StridesOf(ContiguousStrides(argument.tensor.view_dims), depth);
  };
  work.gradient = strides(gradient, attention.value_depth);
  attention.output = strides(result, attention.value_depth);
  const auto of_statistic = [](const Argument& argument) {
    const Dims& all = argument.tensor.strides;
    return HeadStrides{all[0], all[1], all[2]};
  };
  work.largest = of_statistic(largest);
  work.sum = of_statistic(sum);
  work.grad_query = row_major(grad_query, attention.depth);
  work.grad_key = row_major(grad_key, attention.depth);
  work.grad_value = row_major(grad_value, attention.value_depth);
  const AttentionBlocks blocks = BlocksOf(work, Runtime::Current()->config().threads);
  AddScratch(plan, blocks);
  plan.PromiseTimeOfProducts(ScoresOf(attention) *
                             (2.5 * static_cast<double>(attention.depth + attention.value_depth) + kProductsOfScore));
  plan.SetKernel<AttentionGradients>(work, blocks);
  return plan;
}

}  // namespace

Plan PlanFlashAttentionScore(const FlashAttentionScoreArguments& arguments) { return ValuesOf(arguments, 1); }

Plan PlanFlashAttentionScoreV2(const FlashAttentionScoreV2Arguments& arguments) {
  return ValuesOf(arguments, arguments.pse_type);
}

Plan PlanFlashAttentionScoreGrad(const FlashAttentionScoreGradArguments& arguments) {
  return GradientsOf(arguments, 1);
}

Plan PlanFlashAttentionScoreGradV2(const FlashAttentionScoreGradV2Arguments& arguments) {
  return GradientsOf(arguments, arguments.pse_type);
}

}  // namespace acl_host
