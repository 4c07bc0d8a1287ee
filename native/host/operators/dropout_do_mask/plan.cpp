// aclnnDropoutDoMask: its checks, in CANN's order, and its plan.
#include <limits>
#include <string>

#include "computation.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {

Plan PlanDropoutDoMask(const DropoutDoMaskArguments& given) {
  CheckProduct(kNot310P);
  const Argument self{"self", given.self};
  const Argument mask{"mask", given.mask};
  const Argument out{"out", given.out};
  Plan plan;
  if (self.tensor.empty()) return plan;
  CheckDataType(self, FloatTypes());
  // A device casts the result, and writes nothing if the mask is empty.
  CheckSameDataType(out, self);
  CheckDataType(mask, {ACL_UINT8});
  // A device lets NaN pass.
  if (!(0 <= given.prob && given.prob <= 1)) {
    FailInvalid("prob: expected from 0 to 1, got " + std::to_string(given.prob));
  }
  CheckMostDims(self);
  CheckSameShape(out, self);
  CheckNoNegativeDim(self);
  CheckNoNegativeDim(mask);
  const int64_t count = ElementCount(self.tensor.view_dims);
  const int64_t bytes = ((count - 1) / 128 + 1) * 16;
  if (ElementCount(mask.tensor.view_dims) < bytes) FailShape(mask, "at least " + std::to_string(bytes) + " bytes");
  for (const Argument& each : {self, mask, out}) CheckAddressable(each);
  plan.AddOutput(out.tensor);
  plan.PromiseTimeOfBytes();
  if (given.prob == 1) {
    plan.SetZeros();
    return plan;
  }
  plan.AddInput(self.tensor);
  plan.AddInput(mask.tensor);
  const bool keeps_all = given.prob <= std::numeric_limits<double>::epsilon();
  plan.SetKernel<DropoutMask>(Dropout{count, self.tensor.data_type, static_cast<float>(1 - given.prob), keeps_all});
  return plan;
}

}  // namespace acl_host
