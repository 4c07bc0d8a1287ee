// aclnnLayerNorm: its checks, in CANN's order, and its plan.
#include <algorithm>
#include <limits>
#include <string>

#include "families/normalisation/operands.h"
#include "families/rows/fills.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

struct Tensors {
  explicit Tensors(const LayerNormArguments& given)
      : input("input", given.input),
        normalized_shape("normalizedShape", given.normalized_shape),
        weight(IfGiven("weightOptional", given.weight_optional)),
        bias(IfGiven("biasOptional", given.bias_optional)),
        out("out", given.out),
        mean(IfGiven("meanOutOptional", given.mean_out_optional)),
        rstd(IfGiven("rstdOutOptional", given.rstd_out_optional)) {}

  Argument input;
  IntArrayArgument normalized_shape;
  OptionalArgument weight;
  OptionalArgument bias;
  Argument out;
  OptionalArgument mean;
  OptionalArgument rstd;
};

// The results may be of any type.
void CheckTypes(const Tensors& tensors) {
  const auto types = FloatTypes();
  CheckDataType(tensors.input, types);
  for (const auto& each : {tensors.weight, tensors.bias}) {
    if (!each) continue;
    CheckDataType(*each, types);
    if (each->tensor.data_type != ACL_FLOAT) CheckSameDataType(*each, tensors.input);
  }
  if (tensors.weight && tensors.bias) CheckSameDataType(*tensors.weight, *tensors.bias);
  CheckDataType(tensors.out, types);
  for (const auto& each : {tensors.mean, tensors.rstd}) {
    if (each) CheckDataType(*each, types);
  }
}

// Only the 950 compares the shapes of these; others write beyond shorter ones.
void CheckStatistics(const OptionalArgument& argument, int64_t rows, const Dims& expected) {
  if (!argument || (argument->tensor.empty() && rows == 0)) return;
  if (CurrentProduct() == Product::k950) return CheckShape(*argument, "one value for each row", expected);
  CheckNoNegativeDim(*argument);
  if (ElementCount(argument->tensor.view_dims) == rows) return;
  FailShape(*argument, "one value for each row, " + std::to_string(rows) + " elements");
}

// Returns the rows and columns, as samples and channels.
NormalisationValue CheckShapes(const Tensors& tensors) {
  for (const auto& each : {OptionalArgument{tensors.input}, OptionalArgument{tensors.out}, tensors.weight, tensors.bias,
                           tensors.mean, tensors.rstd}) {
    if (each) CheckMostDims(*each);
  }
  const Dims& sizes = tensors.normalized_shape.values;
  const Dims& dims = tensors.input.tensor.view_dims;
  if (sizes.empty() || sizes.size() > dims.size() || !std::equal(sizes.rbegin(), sizes.rend(), dims.rbegin())) {
    FailInvalid("normalizedShape: expected the last sizes of input, of shape " + DimsText(dims) + ", got " +
                DimsText(sizes));
  }
  for (const auto& each : {tensors.weight, tensors.bias}) {
    if (each) CheckShape(*each, "normalizedShape", sizes);
  }
  CheckSameShape(tensors.out, tensors.input);
  CheckNoNegativeDim(tensors.input);
  Dims rows(dims.begin(), dims.end() - static_cast<int64_t>(sizes.size()));
  NormalisationValue norm{};
  norm.samples = ElementCount(rows);
  norm.channels = ElementCount(sizes);
  norm.cells = 1;
  norm.groups = 1;
  rows.resize(dims.size(), 1);
  for (const auto& each : {tensors.mean, tensors.rstd}) CheckStatistics(each, norm.samples, rows);
  return norm;
}

}  // namespace

Plan PlanLayerNorm(const LayerNormArguments& given) {
  CheckProduct(kNot310P);
  const Tensors tensors(given);
  CheckTypes(tensors);
  NormalisationValue norm = CheckShapes(tensors);
  if (norm.samples == 0) return {};
  if (norm.channels == 0) {
    std::vector<Fill> fills;
    if (tensors.mean) fills.push_back({*tensors.mean, 0});
    if (tensors.rstd) fills.push_back({*tensors.rstd, std::numeric_limits<float>::quiet_NaN()});
    return FillsOf(fills);
  }
  (void)ElementCount(tensors.input.tensor.view_dims);
  Plan plan;
  NormalisationOperands operands(plan);
  norm.input = operands.AddInput(tensors.input);
  norm.weight = operands.AddInput(tensors.weight);
  norm.bias = operands.AddInput(tensors.bias);
  norm.out = operands.AddOutput(tensors.out);
  norm.mean = operands.AddOutput(tensors.mean);
  norm.rstd = operands.AddOutput(tensors.rstd);
  norm.eps = static_cast<float>(given.eps);
  SetNormalisation(plan, norm);
  return plan;
}

}  // namespace acl_host
