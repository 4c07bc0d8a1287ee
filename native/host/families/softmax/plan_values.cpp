// aclnnSoftmax and aclnnLogSoftmax: their checks, which differ in their order, and their plans.
#include "families/softmax/rows.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

// A device casts the result to any type; this one to those that it computes with.
void CheckTypes(const Argument& self, const Argument& out) {
  for (const Argument& each : {self, out}) CheckDataType(each, FloatTypes());
}

void CheckShapes(const Argument& self, const Argument& out) {
  CheckMostDims(self);
  CheckSameShape(out, self);
  CheckNoNegativeDim(self);
}

Plan MakePlan(RowFunction function, const Argument& self, const Argument& out, int64_t dim) {
  if (self.tensor.empty()) return {};
  Plan plan = PlanOf({self}, {out});
  const RowValue work{RowsOf(self, dim), function, {0, self.tensor.data_type}, {0, out.tensor.data_type}};
  for (int table = 0; table < 2 && work.rows.parts_bytes() > 0; ++table) plan.AddScratch(work.rows.parts_bytes());
  plan.PromiseTimeOfBytes();
  plan.SetKernel<RowValues>(work);
  return plan;
}

}  // namespace

Plan PlanSoftmax(const SoftmaxArguments& given) {
  CheckProduct(kAllProducts);
  const Argument self{"self", given.self};
  const Argument out{"out", given.out};
  // An empty tensor is answered before anything else is looked at.
  if (self.tensor.empty()) return {};
  CheckTypes(self, out);
  CheckAxis(self, given.dim);
  CheckShapes(self, out);
  return MakePlan(RowFunction::kSoftmax, self, out, given.dim);
}

Plan PlanLogSoftmax(const LogSoftmaxArguments& given) {
  CheckProduct(kAllProducts);
  const Argument self{"self", given.self};
  const Argument out{"out", given.out};
  CheckAxis(self, given.dim);
  CheckTypes(self, out);
  CheckShapes(self, out);
  return MakePlan(RowFunction::kLogSoftmax, self, out, given.dim);
}

}  // namespace acl_host
