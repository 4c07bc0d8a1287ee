// aclnnReduceSum, aclnnMean and aclnnAmax: their checks, in CANN's order and with CANN's codes, and their plans.
#include <algorithm>
#include <string>
#include <vector>

#include "families/reductions/computation.h"
#include "operator_plans.h"
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

bool IsFloat(aclDataType type) { return KindOf(type) == Kind::kReal && type != ACL_DOUBLE; }

void CheckListed(aclDataType dtype, const std::vector<aclDataType>& types) {
  if (std::find(types.begin(), types.end(), dtype) != types.end()) return;
  FailInvalid("dtype: expected a data type of self, got " + DataTypeName(dtype));
}

// A device converts the terms; here sums are of the terms' kind, or real sums of integers.
void CheckHolds(const Argument& self, aclDataType dtype) {
  const Kind from = KindOf(self.tensor.data_type);
  const Kind to = KindOf(dtype);
  if (dtype != ACL_BOOL && (from == to || (from == Kind::kInteger && to == Kind::kReal))) return;
  FailInvalid("dtype: expected a type that holds sums of " + DataTypeName(self.tensor.data_type) + ", got " +
              DataTypeName(dtype));
}

// Whether each axis is reduced.
struct Axes {
  std::vector<bool> is_reduced;

  // name is that of the list; not every operator reduces an axis without elements.
  Axes(const Argument& self, const IntArrayArgument& dims, bool reduces_nothing)
      : is_reduced(static_cast<size_t>(std::max<int64_t>(self.tensor.rank(), 1)), dims.values.empty()) {
    const auto most = static_cast<int64_t>(is_reduced.size());
    const std::string name = std::string(dims.name) + ": expected ";
    for (const int64_t dim : dims.values) {
      if (dim < -most || dim >= most) {
        FailInvalid(name + "values from " + std::to_string(-most) + " to " + std::to_string(most - 1) + ", got " +
                    DimsText(dims.values));
      }
      const auto axis = static_cast<size_t>(dim < 0 ? dim + most : dim);
      if (!reduces_nothing && self.tensor.rank() > 0 && self.tensor.view_dims[axis] == 0) {
        FailInvalid(name + "axes with elements of a tensor of shape " + DimsText(self.tensor.view_dims) + ", got " +
                    DimsText(dims.values));
      }
      if (is_reduced[axis]) FailInvalid(name + "each axis once, got " + DimsText(dims.values));
      is_reduced[axis] = true;
    }
    is_reduced.resize(self.tensor.view_dims.size());
  }

  [[nodiscard]] Dims Without(const Dims& dims, bool keeps) const {
    Dims left;
    for (size_t axis = 0; axis < is_reduced.size(); ++axis) {
      if (!is_reduced[axis]) left.push_back(dims[axis]);
      if (is_reduced[axis] && keeps) left.push_back(1);
    }
    return left;
  }

  void CheckOut(const Argument& self, const Argument& out, const IntArrayArgument& dims, bool keeps) const {
    const std::string what = "the shape of self without the axes in " + std::string(dims.name);
    CheckShape(out, what.c_str(), Without(self.tensor.view_dims, keeps));
  }
};

// With the tensors that are there.
Plan TensorsOf(const Argument& self, const Argument& out) {
  for (const Argument& each : {self, out}) CheckAddressable(each);
  Plan plan;
  plan.AddOutput(out.tensor);
  plan.PromiseTimeOfBytes();
  if (!self.tensor.empty()) plan.AddStridedInput(self.tensor);
  return plan;
}

void SetSum(Plan& plan, const Reduction& reduction) {
  if (IsFloat(reduction.from) && IsFloat(reduction.to)) {
    plan.AddScratch(kPartBytes);
    plan.SetKernel<ReduceSum>(reduction);
  } else {
    plan.SetCompute([reduction](const KernelArguments& launch) { SumNumbers(reduction, launch); });
  }
}

const auto kNumbers = {ACL_DOUBLE, ACL_INT8, ACL_INT16, ACL_INT32, ACL_INT64, ACL_UINT8, ACL_COMPLEX64, ACL_COMPLEX128};

}  // namespace

Plan PlanReduceSum(const ReduceSumArguments& arguments) {
  CheckProduct(kAllProducts);
  const Argument self{"self", arguments.self};
  const IntArrayArgument dims{"dims", arguments.dims};
  const Argument out{"out", arguments.out};
  std::vector<aclDataType> types = FloatTypes(kNumbers);
  types.push_back(ACL_BOOL);
  CheckDataType(self, types);
  CheckDataType(out, types);
  CheckListed(arguments.dtype, types);
  if (out.tensor.data_type != arguments.dtype) {
    FailInvalid("out: expected the data type of dtype, " + DataTypeName(arguments.dtype) + ", got " +
                DataTypeName(out.tensor.data_type));
  }
  CheckMostDims(self);
  const Axes axes(self, dims, /*reduces_nothing=*/true);
  axes.CheckOut(self, out, dims, arguments.keep_dims);
  CheckNoNegativeDim(self);
  for (const Argument& each : {self, out}) CheckNotPrivateFormat(each);
  CheckHolds(self, arguments.dtype);

  if (out.tensor.empty()) return {};
  Plan plan = TensorsOf(self, out);
  if (self.tensor.empty()) {
    plan.SetZeros();
  } else {
    SetSum(plan, ReductionOf(self.tensor, axes.is_reduced, arguments.dtype));
  }
  return plan;
}

Plan PlanMean(const MeanArguments& arguments) {
  CheckProduct(kAllProducts);
  const Argument self{"self", arguments.self};
  const IntArrayArgument dim{"dim", arguments.dim};
  const Argument out{"out", arguments.out};
  const std::vector<aclDataType> types = FloatTypes(kNumbers);
  CheckDataType(self, types);
  CheckListed(arguments.dtype, types);
  CheckDataType(out, types);
  CheckHolds(self, arguments.dtype);
  if (KindOf(out.tensor.data_type) != KindOf(arguments.dtype)) {
    FailInvalid("out: expected a type that holds " + DataTypeName(arguments.dtype) + ", got " +
                DataTypeName(out.tensor.data_type));
  }
  const Axes axes(self, dim, /*reduces_nothing=*/true);
  CheckMostDims(self);
  CheckMostDims(out);
  CheckNoNegativeDim(self);
  for (const Argument& each : {self, out}) CheckNotPrivateFormat(each);
  if (self.tensor.empty()) {
    // Whatever the shape of out is.
    if (KindOf(out.tensor.data_type) == Kind::kComplex) FailInvalid("out: expected no complex numbers of empty means");
    if (out.tensor.empty()) return {};
    Plan plan = TensorsOf(self, out);
    plan.SetCompute([type = out.tensor.data_type, count = ElementCount(out.tensor.view_dims)](
                        const KernelArguments& launch) { FillNan(type, count, launch); });
    return plan;
  }
  axes.CheckOut(self, out, dim, arguments.keep_dim);
  Plan plan = TensorsOf(self, out);
  Reduction reduction = ReductionOf(self.tensor, axes.is_reduced, out.tensor.data_type);
  reduction.divisor = static_cast<double>(reduction.terms);
  SetSum(plan, reduction);
  return plan;
}

Plan PlanAmax(const AmaxArguments& arguments) {
  CheckProduct(kAllProducts);
  const Argument self{"self", arguments.self};
  const IntArrayArgument dim{"dim", arguments.dim};
  const Argument out{"out", arguments.out};
  CheckSameDataType(out, self);
  CheckDataType(self, FloatTypes({ACL_DOUBLE, ACL_INT8, ACL_INT16, ACL_INT32, ACL_INT64, ACL_UINT8, ACL_BOOL}));
  const Axes axes(self, dim, /*reduces_nothing=*/false);
  CheckMostDims(self);
  CheckMostDims(out);
  axes.CheckOut(self, out, dim, arguments.keep_dim);
  CheckNoNegativeDim(self);
  for (const Argument& each : {self, out}) CheckNotPrivateFormat(each);

  if (self.tensor.empty()) return {};
  Plan plan = TensorsOf(self, out);
  plan.AddScratch(kPartBytes);
  plan.SetKernel<ReduceMax>(ReductionOf(self.tensor, axes.is_reduced, out.tensor.data_type));
  return plan;
}

}  // namespace acl_host
