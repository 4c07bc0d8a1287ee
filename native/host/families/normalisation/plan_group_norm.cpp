// aclnnGroupNorm: its checks, in CANN's order, and its plan.
#include <limits>
#include <string>

#include "families/normalisation/operands.h"
#include "families/rows/fills.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

struct Tensors {
  explicit Tensors(const GroupNormArguments& given)
      : self("self", given.self),
        gamma(IfGiven("gamma", given.gamma)),
        beta(IfGiven("beta", given.beta)),
        out("out", given.out),
        mean("meanOut", given.mean_out),
        rstd("rstdOut", given.rstd_out) {}

  Argument self;
  OptionalArgument gamma;
  OptionalArgument beta;
  Argument out;
  Argument mean;
  Argument rstd;
};

void CheckTypes(const Tensors& tensors) {
  CheckDataType(tensors.self, FloatTypes());
  for (const auto& each : {tensors.gamma, tensors.beta}) {
    if (each) CheckSameDataType(*each, tensors.self);
  }
  for (const Argument& each : {tensors.out, tensors.mean, tensors.rstd}) CheckSameDataType(each, tensors.self);
}

void CheckAttributes(const GroupNormArguments& given) {
  if (given.group <= 0) FailInvalid("group: expected more than 0, got " + std::to_string(given.group));
  if (given.c % given.group != 0) {
    FailInvalid("C: expected a multiple of group, " + std::to_string(given.group) + ", got " + std::to_string(given.c));
  }
  if (!(given.eps > 0)) FailInvalid("eps: expected more than 0, got " + std::to_string(given.eps));
}

void CheckSize(const char* name, int64_t value, int64_t expected) {
  if (value == expected) return;
  FailInvalid(std::string(name) + ": expected that of self, " + std::to_string(expected) + ", got " +
              std::to_string(value));
}

void CheckShapes(const Tensors& tensors, const GroupNormArguments& given) {
  CheckRank(tensors.self, {2, 3, 4, 5, 6, 7, 8});
  CheckSameShape(tensors.out, tensors.self);
  for (const Argument& each : {tensors.mean, tensors.rstd}) CheckShape(each, "N and group", {given.n, given.group});
  CheckNoNegativeDim(tensors.self);
  const Dims& dims = tensors.self.tensor.view_dims;
  CheckSize("N", given.n, dims[0]);
  CheckSize("C", given.c, dims[1]);
  CheckSize("HxW", given.hx_w, ElementCount(Dims(dims.begin() + 2, dims.end())));
  for (const auto& each : {tensors.gamma, tensors.beta}) {
    if (each) CheckShape(*each, "C", {given.c});
  }
}

void CheckFormats(const Tensors& tensors) {
  CheckSameFormat(tensors.out, tensors.self);
  CheckNotPrivateFormat(tensors.self);
  for (const aclFormat format : {ACL_FORMAT_NHWC, ACL_FORMAT_HWCN, ACL_FORMAT_NDHWC}) {
    if (tensors.self.tensor.format == format) CheckFormat(tensors.self, ACL_FORMAT_ND);
  }
}

}  // namespace

Plan PlanGroupNorm(const GroupNormArguments& given) {
  CheckProduct(kAllProducts);
  const Tensors tensors(given);
  CheckTypes(tensors);
  CheckAttributes(given);
  CheckShapes(tensors, given);
  CheckFormats(tensors);
  if (tensors.self.tensor.empty()) {
    return FillsOf({{tensors.mean, 0}, {tensors.rstd, std::numeric_limits<float>::quiet_NaN()}});
  }
  NormalisationValue norm{};
  norm.samples = given.n;
  norm.channels = given.c;
  norm.cells = given.hx_w;
  norm.groups = given.group;
  norm.eps = static_cast<float>(given.eps);
  Plan plan;
  NormalisationOperands operands(plan);
  norm.input = operands.AddInput(tensors.self);
  norm.weight = operands.AddInput(tensors.gamma);
  norm.bias = operands.AddInput(tensors.beta);
  norm.out = operands.AddOutput(tensors.out);
  norm.mean = operands.AddOutput(tensors.mean);
  norm.rstd = operands.AddOutput(tensors.rstd);
  SetNormalisation(plan, norm);
  return plan;
}

}  // namespace acl_host
