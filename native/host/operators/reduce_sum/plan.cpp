// aclnnReduceSum: its checks, in CANN's order and with CANN's codes, and its plan.
#include <algorithm>
#include <string>
#include <vector>

#include "operator_plans.h"
#include "operators/reduce_sum/computation.h"
#include "plan/checks.h"
#include "tensors/data_type.h"

namespace acl_host {
namespace {

enum class Kind { kInteger, kReal, kComplex };

Kind KindOf(aclDataType type) {
  if (type == ACL_COMPLEX64 || type == ACL_COMPLEX128) return Kind::kComplex;
  const auto real = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_DOUBLE};
  return std::find(real.begin(), real.end(), type) == real.end() ? Kind::kInteger : Kind::kReal;
}

// A device converts the terms; here sums are of the terms' kind, or real sums of integers.
void CheckTypes(const Argument& self, const Argument& out, aclDataType dtype) {
  const std::vector<aclDataType> types = FloatTypes(
      {ACL_DOUBLE, ACL_INT8, ACL_INT16, ACL_INT32, ACL_INT64, ACL_UINT8, ACL_BOOL, ACL_COMPLEX64, ACL_COMPLEX128});
  CheckDataType(self, types);
  CheckDataType(out, types);
  if (std::find(types.begin(), types.end(), dtype) == types.end()) {
    FailInvalid("dtype: expected the data type of out, got " + DataTypeName(dtype));
  }
  if (out.tensor.data_type != dtype) {
    FailInvalid("out: expected the data type of dtype, " + DataTypeName(dtype) + ", got " +
                DataTypeName(out.tensor.data_type));
  }
}

void CheckKinds(const Argument& self, aclDataType dtype) {
  const Kind from = KindOf(self.tensor.data_type);
  const Kind to = KindOf(dtype);
  if (dtype != ACL_BOOL && (from == to || (from == Kind::kInteger && to == Kind::kReal))) return;
  FailInvalid("dtype: expected a type that holds sums of " + DataTypeName(self.tensor.data_type) + ", got " +
              DataTypeName(dtype));
}

// Whether each axis is added up.
std::vector<bool> AddedAxes(const Argument& self, const IntArrayArgument& dims) {
  const int64_t rank = self.tensor.rank();
  const int64_t most = std::max<int64_t>(rank, 1);
  std::vector<bool> added(static_cast<size_t>(most), dims.values.empty());
  for (const int64_t dim : dims.values) {
    if (dim < -most || dim >= most) {
      FailInvalid("dims: expected values from " + std::to_string(-most) + " to " + std::to_string(most - 1) + ", got " +
                  DimsText(dims.values));
    }
    auto&& axis = added[static_cast<size_t>(dim < 0 ? dim + most : dim)];
    if (axis) FailInvalid("dims: expected each axis once, got " + DimsText(dims.values));
    axis = true;
  }
  added.resize(static_cast<size_t>(rank));
  return added;
}

bool IsFloat(aclDataType type) { return KindOf(type) == Kind::kReal && type != ACL_DOUBLE; }

}  // namespace

Plan PlanReduceSum(const ReduceSumArguments& arguments) {
  CheckProduct(kAllProducts);
  const Argument self{"self", arguments.self};
  const IntArrayArgument dims{"dims", arguments.dims};
  const Argument out{"out", arguments.out};
  CheckTypes(self, out, arguments.dtype);
  CheckMostDims(self);
  const std::vector<bool> is_added = AddedAxes(self, dims);
  Dims expected;
  for (size_t axis = 0; axis < is_added.size(); ++axis) {
    if (!is_added[axis]) expected.push_back(self.tensor.view_dims[axis]);
    if (is_added[axis] && arguments.keep_dims) expected.push_back(1);
  }
  CheckShape(out, "the shape of self without the axes in dims", expected);
  CheckNoNegativeDim(self);
  for (const Argument& each : {self, out}) CheckNotPrivateFormat(each);
  CheckKinds(self, arguments.dtype);

  Plan plan;
  if (out.tensor.empty()) return plan;
  for (const Argument& each : {self, out}) CheckAddressable(each);
  plan.AddOutput(out.tensor);
  plan.PromiseTimeOfBytes();
  if (self.tensor.empty()) {
    plan.SetZeros();
    return plan;
  }
  plan.AddStridedInput(self.tensor);
  const Summation summation = SummationOf(self.tensor, is_added, arguments.dtype);
  if (IsFloat(summation.from) && IsFloat(summation.to)) {
    plan.AddScratch(kPartBytes);
    plan.SetKernel<ReduceSum>(summation);
  } else {
    plan.SetCompute([summation](const KernelArguments& launch) { SumNumbers(summation, launch); });
  }
  return plan;
}

}  // namespace acl_host
