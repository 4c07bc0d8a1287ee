// aclnnEmbedding, aclnnIndexSelect, aclnnGather, aclnnScatterAdd and aclnnIndexAdd: their checks, in CANN's order and
// with CANN's codes, and their plans.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "families/elementwise/promotion.h"
#include "families/gathering/computation.h"
#include "operator_plans.h"
#include "plan/checks.h"

namespace acl_host {
namespace {

constexpr Products kSinceA2 = {Product::k910B, Product::k910_93, Product::k950};
const std::vector<aclDataType> kIndexTypes = {ACL_INT32, ACL_INT64};

std::vector<aclDataType> RealTypes() {
  return FloatTypes({ACL_DOUBLE, ACL_INT8, ACL_INT16, ACL_INT32, ACL_INT64, ACL_UINT8, ACL_BOOL});
}

std::vector<aclDataType> AllTypes() {
  std::vector<aclDataType> types = RealTypes();
  types.insert(types.end(), {ACL_COMPLEX64, ACL_COMPLEX128});
  return types;
}

// The axis of a tensor, of which a scalar has one.
size_t AxisOf(const Argument& self, int64_t dim) {
  const int64_t most = std::max<int64_t>(self.tensor.rank(), 1);
  if (dim < -most || dim >= most) {
    FailInvalid("dim: expected a value from " + std::to_string(-most) + " to " + std::to_string(most - 1) + ", got " +
                std::to_string(dim));
  }
  return static_cast<size_t>(dim < 0 ? dim + most : dim);
}

// Dims, of a scalar one of 1.
Dims OneAtLeast(const Dims& dims) { return dims.empty() ? Dims{1} : dims; }
Dims StridesOf(const aclTensor& tensor) { return tensor.view_dims.empty() ? Dims{1} : tensor.strides; }

Slices SlicesOf(const char* name, const aclTensor& self, size_t axis, const aclTensor& index) {
  const Dims dims = OneAtLeast(self.view_dims);
  const auto at = dims.begin() + static_cast<std::ptrdiff_t>(axis);
  return {name,
          self.data_type,
          index.data_type,
          ElementCount(Dims(dims.begin(), at)),
          *at,
          ElementCount(Dims(at + 1, dims.end())),
          ElementCount(index.view_dims)};
}

Plan TakingPlan(const Argument& self, const Argument& index, const Argument& out) {
  for (const Argument& each : {self, index, out}) CheckAddressable(each);
  Plan plan;
  plan.AddOutput(out.tensor);
  plan.PromiseTimeOfBytes();
  return plan;
}

void CheckNoneIsNegative(std::initializer_list<Argument> all) {
  for (const Argument& each : all) CheckNoNegativeDim(each);
}

}  // namespace

Plan PlanEmbedding(const EmbeddingArguments& arguments) {
  CheckProduct(kAllProducts);
  const Argument weight{"weight", arguments.weight};
  const Argument indices{"indices", arguments.indices};
  const Argument out{"out", arguments.out};
  CheckDataType(weight, AllTypes());
  CheckSameDataType(out, weight);
  CheckDataType(indices, kIndexTypes);
  for (const Argument& each : {weight, indices, out}) CheckMostDims(each);
  if (out.tensor.rank() != indices.tensor.rank() + 1) FailShape(out, "one dim more than indices");
  CheckSameLeadingDims(out, indices, indices.tensor.rank());
  CheckNoneIsNegative({weight, indices, out});
  for (const Argument& each : {weight, indices, out}) CheckNotPrivateFormat(each);
  if (weight.tensor.empty() || indices.tensor.empty()) return {};
  // A device looks at these when it copies.
  if (weight.tensor.rank() != 2) FailShape(weight, "rank 2", ACLNN_ERR_INNER_NULLPTR);
  if (out.tensor.view_dims.back() != weight.tensor.view_dims[1]) {
    FailShape(out, "the last dim to be that of weight, " + std::to_string(weight.tensor.view_dims[1]),
              ACLNN_ERR_INNER_NULLPTR);
  }

  Plan plan = TakingPlan(weight, indices, out);
  plan.AddInput(weight.tensor);
  plan.AddInput(indices.tensor);
  plan.SetKernel<TakeSlices>(SlicesOf("aclnnEmbedding: indices", weight.tensor, 0, indices.tensor));
  return plan;
}

Plan PlanIndexSelect(const IndexSelectArguments& arguments) {
  CheckProduct(kAllProducts);
  const Argument self{"self", arguments.self};
  const Argument index{"index", arguments.index};
  const Argument out{"out", arguments.out};
  CheckDataType(self, AllTypes());
  CheckSameDataType(out, self);
  CheckDataType(index, kIndexTypes);
  for (const Argument& each : {self, index, out}) CheckNotPrivateFormat(each);
  CheckNoneIsNegative({self, index, out});
  if (self.tensor.rank() == 0) CheckRank(out, {0});
  CheckMostDims(self);
  const size_t axis = AxisOf(self, arguments.dim);
  CheckRank(index, {0, 1});
  if (self.tensor.empty() || index.tensor.empty()) return {};
  const Slices slices = SlicesOf("aclnnIndexSelect: index", self.tensor, axis, index.tensor);
  if (self.tensor.rank() == 0) {
    CheckShape(index, "one element for a scalar", Dims(index.tensor.view_dims.size(), 1));
  } else {
    Dims expected = self.tensor.view_dims;
    expected[axis] = slices.count;
    CheckShape(out, "the shape of self with a slice for each element of index", expected);
  }

  Plan plan = TakingPlan(self, index, out);
  plan.AddInput(self.tensor);
  plan.AddInput(index.tensor);
  plan.SetKernel<TakeSlices>(slices);
  return plan;
}

Plan PlanGather(const GatherArguments& arguments) {
  CheckProduct(kSinceA2);
  const Argument self{"self", arguments.self};
  const Argument index{"index", arguments.index};
  const Argument out{"out", arguments.out};
  CheckDataType(self, RealTypes());
  if (!index.tensor.empty()) CheckDataType(index, kIndexTypes);
  CheckSameDataType(out, self);
  const Dims sizes = OneAtLeast(self.tensor.view_dims);
  const Dims taken = OneAtLeast(index.tensor.view_dims);
  if (sizes.size() != taken.size()) FailShape(index, "the rank of self, " + std::to_string(self.tensor.rank()));
  for (const Argument& each : {self, index, out}) CheckMostDims(each);
  CheckSameShape(out, index);
  const size_t axis = AxisOf(self, arguments.dim);
  CheckNoneIsNegative({self, index, out});
  for (const Argument& each : {self, index, out}) CheckNotPrivateFormat(each);
  if (index.tensor.empty()) return {};
  for (size_t other = 0; other < self.tensor.view_dims.size(); ++other) {
    if (other == axis ? sizes[other] == 0 : taken[other] > sizes[other]) {
      FailShape(index, "at most the dims of self, " + DimsText(sizes) + ", but for dim " + std::to_string(axis));
    }
  }

  Plan plan = TakingPlan(self, index, out);
  plan.AddStridedInput(self.tensor);
  plan.AddStridedInput(index.tensor);
  Dims steps = StridesOf(self.tensor);
  const int64_t position_step = steps[axis];
  steps[axis] = 0;
  plan.SetKernel<TakeElements>(
      TakenElements{"aclnnGather: index", self.tensor.data_type, index.tensor.data_type, sizes[axis], position_step,
                    ViewWalk<3>(taken, {steps, StridesOf(index.tensor), ContiguousStrides(taken)})});
  return plan;
}

Plan PlanScatterAdd(const ScatterAddArguments& arguments) {
  CheckProduct(kSinceA2);
  const Argument self{"self", arguments.self};
  const Argument index{"index", arguments.index};
  const Argument src{"src", arguments.src};
  const Argument out{"out", arguments.out};
  CheckDataType(self, AllTypes());
  CheckSameDataType(src, self);
  CheckSameDataType(out, self);
  CheckNoneIsNegative({self, index, src, out});
  const bool is_copy = index.tensor.empty();
  if (!is_copy) {
    CheckDataType(index, kIndexTypes);
    const auto rank_of = [](const Argument& each) {
      // The 950 takes a scalar for one element.
      const int64_t least = CurrentProduct() == Product::k950 ? 1 : 0;
      return std::max(each.tensor.rank(), least);
    };
    for (const Argument& each : {index, src}) {
      if (rank_of(each) != rank_of(self)) FailShape(each, "the rank of self, " + std::to_string(self.tensor.rank()));
    }
  }
  const Dims sizes = OneAtLeast(self.tensor.view_dims);
  const Dims added = OneAtLeast(index.tensor.view_dims);
  if (out.tensor.view_dims != self.tensor.view_dims) {
    // A device finds this when it copies.
    FailShape(out, "the shape of self, " + DimsText(self.tensor.view_dims),
              is_copy || out.tensor.rank() == 0 ? ACLNN_ERR_INNER_NULLPTR : ACLNN_ERR_PARAM_INVALID);
  }
  CheckMostDims(self);
  for (const Argument& each : {self, index, src, out}) CheckNotPrivateFormat(each);
  size_t axis = 0;
  if (!is_copy) {
    axis = AxisOf(self, arguments.dim);
    const Dims given = OneAtLeast(src.tensor.view_dims);
    for (size_t other = 0; other < added.size(); ++other) {
      if (added[other] > given[other]) FailShape(index, "at most the dims of src, " + DimsText(given));
      if (other != axis && added[other] > sizes[other]) {
        FailShape(index, "at most the dims of self, " + DimsText(sizes) + ", but for dim " + std::to_string(axis));
      }
    }
  }
  if (self.tensor.empty()) return {};

  Plan plan = TakingPlan(self, index, out);
  plan.AddInput(self.tensor);
  const auto self_bytes =
      static_cast<uint64_t>(ElementCount(sizes)) * static_cast<uint64_t>(aclDataTypeSize(self.tensor.data_type));
  if (is_copy) {
    plan.SetCompute(
        [self_bytes](const KernelArguments& launch) { std::copy_n(launch.inputs[0], self_bytes, launch.outputs[0]); });
    return plan;
  }
  CheckAddressable(src);
  plan.AddInput(index.tensor);
  plan.AddStridedInput(src.tensor);
  Dims lines = added;
  lines[axis] = 1;
  const Dims self_steps = ContiguousStrides(sizes);
  const Dims index_steps = ContiguousStrides(added);
  const Dims source_steps = StridesOf(src.tensor);
  bool covers_self = true;
  for (size_t other = 0; other < sizes.size(); ++other) covers_self &= other == axis || added[other] == sizes[other];
  const AddedElements elements{
      "aclnnScatterAdd: index",
      self.tensor.data_type,
      index.tensor.data_type,
      sizes[axis],
      self_steps[axis],
      {added[axis], index_steps[axis], source_steps[axis]},
      ViewWalk<3>(lines, {index_steps, source_steps, self_steps}, AddedElements::LinesOf(sizes[axis])),
      covers_self ? 0 : self_bytes};
  if (const int64_t numbers = elements.blocks().numbers(); numbers > 0) {
    plan.AddScratch(static_cast<uint64_t>(numbers) * sizeof(int64_t));
  }
  plan.SetKernel<AddElements>(elements);
  return plan;
}

Plan PlanIndexAdd(const IndexAddArguments& arguments) {
  CheckProduct(kSinceA2);
  const Argument self{"self", arguments.self};
  const Argument index{"index", arguments.index};
  const Argument source{"source", arguments.source};
  const NumberArgument alpha{"alpha", arguments.alpha};
  const Argument out{"out", arguments.out};
  CheckDataType(self, RealTypes());
  CheckDataType(index, kIndexTypes);
  for (const Argument& each : {source, out}) CheckSameDataType(each, self);
  CheckNoneIsNegative({self, index, source, out});
  CheckMostDims(self);
  CheckMostDims(source);
  const size_t axis = AxisOf(self, arguments.dim);
  const Dims given = OneAtLeast(source.tensor.view_dims);
  if (OneAtLeast(self.tensor.view_dims).size() != given.size()) {
    FailShape(source, "the rank of self, " + std::to_string(self.tensor.rank()));
  }
  for (size_t other = 0; other < self.tensor.view_dims.size(); ++other) {
    if (other != axis) CheckDim(source, other, "that of self", self.tensor.view_dims[other]);
  }
  CheckRank(index, {0, 1});
  const Slices slices = SlicesOf("aclnnIndexAdd: index", self.tensor, axis, index.tensor);
  if (given[axis] != slices.count) {
    FailShape(index, "an element for each of " + std::to_string(given[axis]) + " slices of source");
  }
  CheckSameShape(out, self);
  for (const Argument& each : {self, index, source, out}) CheckNotPrivateFormat(each);
  if (self.tensor.empty() || source.tensor.empty()) return {};

  CheckAddressable(source);
  Plan plan = TakingPlan(self, index, out);
  for (const Argument& each : {self, index, source}) plan.AddInput(each.tensor);
  const Number number = alpha.number();
  // Integers are multiplied by what is before the point.
  const bool fits = std::abs(number.real) < 9.2e18;
  const int64_t whole = IsWhole(alpha.type()) ? number.integer : fits ? static_cast<int64_t>(number.real) : 0;
  const AddedSlices added{slices, {whole, number.real}};
  if (const int64_t numbers = added.blocks().numbers(); numbers > 0) {
    plan.AddScratch(static_cast<uint64_t>(numbers) * sizeof(int64_t));
  }
  plan.SetKernel<AddSlices>(added);
  return plan;
}

}  // namespace acl_host
