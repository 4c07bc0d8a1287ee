// aclnnInplaceCopy, aclnnInplaceFillScalar and aclnnCat: their checks, in CANN's order and with CANN's codes, and their
// plans. Views are written in place.
#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "families/elementwise/promotion.h"
#include "families/movement/computation.h"
#include "operator_plans.h"
#include "plan/checks.h"
#include "tensors/data_type.h"
#include "tensors/strided_copy.h"

namespace acl_host {
namespace {

// Moves elements between the views of an operator, given the addresses of their first elements.
class Movement {
 public:
  // By way of the type `via`, see Conversion.
  Movement(const Dims& dims, const Dims& from, aclDataType from_type, aclDataType via, const Dims& to,
           aclDataType to_type)
      : way_(from_type == to_type && via == to_type
                 ? std::variant<StridedCopy, Conversion>(StridedCopy(dims, from, to, to_type))
                 : std::variant<StridedCopy, Conversion>(
                       Conversion{ViewWalk<2>(dims, {from, to}), from_type, via, to_type})),
        convert_(AtVectorLevel<ConvertElements>()) {}

  [[nodiscard]] int64_t units() const {
    const auto* const copy = std::get_if<StridedCopy>(&way_);
    return copy != nullptr ? copy->units() : std::get<Conversion>(way_).walk.units();
  }
  [[nodiscard]] int64_t unit_elements() const {
    const auto* const copy = std::get_if<StridedCopy>(&way_);
    return copy != nullptr ? copy->unit_elements() : std::get<Conversion>(way_).walk.unit_elements();
  }

  void Run(const std::byte* from, std::byte* to, int64_t begin, int64_t end) const {
    if (const auto* const copy = std::get_if<StridedCopy>(&way_)) return copy->Run(from, to, begin, end);
    convert_(std::get<Conversion>(way_), from, to, begin, end);
  }
  void Run(ThreadPool& pool, const std::byte* from, std::byte* to) const {
    pool.ParallelFor(units(), Grain(unit_elements()), [&](int64_t begin, int64_t end) { Run(from, to, begin, end); });
  }

 private:
  std::variant<StridedCopy, Conversion> way_;
  decltype(AtVectorLevel<ConvertElements>()) convert_;
};

std::vector<aclDataType> AllTypes() {
  return FloatTypes(
      {ACL_DOUBLE, ACL_INT8, ACL_INT16, ACL_INT32, ACL_INT64, ACL_UINT8, ACL_BOOL, ACL_COMPLEX64, ACL_COMPLEX128});
}

}  // namespace

Plan PlanInplaceCopy(const InplaceCopyArguments& arguments) {
  CheckProduct(kAllProducts);
  const Argument self_ref{"selfRef", arguments.self_ref};
  const Argument src{"src", arguments.src};
  for (const Argument& each : {self_ref, src}) {
    CheckDataType(each, AllTypes());
    CheckMostDims(each);
    CheckNotPrivateFormat(each);
  }
  const Dims& from = src.tensor.view_dims;
  const Dims& to = self_ref.tensor.view_dims;
  if (BroadcastDims(from, to) != to) {
    FailInvalid("src: expected a shape that is broadcast to that of selfRef, " + DimsText(to) + ", got " +
                DimsText(from));
  }

  if (self_ref.tensor.empty()) return {};
  CheckAddressable(self_ref);
  CheckAddressable(src);
  const aclTensor view = Broadcast(src.tensor, to);
  Plan plan;
  plan.AddStridedInput(view);
  plan.AddStridedOutput(self_ref.tensor);
  plan.PromiseTimeOfBytes();
  const aclDataType type = self_ref.tensor.data_type;
  plan.SetCompute(
      [movement = Movement(to, view.strides, view.data_type, type, self_ref.tensor.strides, type)](
          const KernelArguments& launch) { movement.Run(launch.pool, launch.inputs[0], launch.outputs[0]); });
  return plan;
}

Plan PlanInplaceFillScalar(const InplaceFillScalarArguments& arguments) {
  CheckProduct(kAllProducts);
  const Argument self_ref{"selfRef", arguments.self_ref};
  const auto& value = Required<OperatorError>(arguments.value, "value");
  CheckDataType(self_ref, AllTypes());
  CheckMostDims(self_ref);
  CheckNoNegativeDim(self_ref);
  CheckNotPrivateFormat(self_ref);

  if (self_ref.tensor.empty()) return {};
  CheckAddressable(self_ref);
  Plan plan;
  plan.AddStridedOutput(self_ref.tensor);
  plan.PromiseTimeOfBytes();
  const aclTensor& self = self_ref.tensor;
  std::vector<std::byte> element(aclDataTypeSize(self.data_type));
  Movement({}, {}, value.data_type, self.data_type, {}, self.data_type).Run(value.value.data(), element.data(), 0, 1);
  const Dims nowhere(self.view_dims.size(), 0);
  plan.SetCompute(
      [element = std::move(element), fill = StridedCopy(self.view_dims, nowhere, self.strides, self.data_type)](
          const KernelArguments& launch) { fill.Run(launch.pool, element.data(), launch.outputs[0]); });
  return plan;
}

namespace {

// The tensors of a list that count, by their names in messages.
struct Listed {
  std::vector<std::string> names;
  std::vector<const aclTensor*> tensors;

  explicit Listed(const aclTensorList* list) {
    const auto& given = Required<OperatorError>(list, "tensors").tensors;
    for (size_t index = 0; index < given.size(); ++index) {
      const std::string name = "tensors[" + std::to_string(index) + "]";
      const aclTensor& tensor = Required<OperatorError>(given[index].get(), name.c_str());
      if (tensor.view_dims == Dims{0}) continue;
      names.push_back(name);
      tensors.push_back(&tensor);
    }
  }

  [[nodiscard]] Argument At(size_t index) const { return {names[index].c_str(), tensors[index]}; }
};

// Returns the type of all tensors together.
aclDataType CheckTypes(const Listed& listed, const Argument& out) {
  std::vector<aclDataType> types = AllTypes();
  types.erase(std::find(types.begin(), types.end(), ACL_COMPLEX128));
  for (size_t index = 0; index < listed.tensors.size(); ++index) CheckDataType(listed.At(index), types);
  CheckDataType(out, types);
  aclDataType type = listed.tensors[0]->data_type;
  for (size_t index = 1; index < listed.tensors.size(); ++index) {
    type = Promoted(listed.tensors[index]->data_type, type);
    if (type == ACL_COMPLEX128) FailInvalid(listed.names[index] + ": expected no type that makes all COMPLEX128");
  }
  if (!CanCast(type, out.tensor.data_type)) {
    FailInvalid("out: expected a data type that holds " + DataTypeName(type) + ", got " +
                DataTypeName(out.tensor.data_type));
  }
  return type;
}

// Returns the axis.
size_t CheckShapes(const Listed& listed, int64_t dim) {
  const Argument first = listed.At(0);
  CheckMostDims(first);
  const int64_t rank = first.tensor.rank();
  if (dim < -rank || dim >= rank) {
    FailInvalid("dim: expected a value from " + std::to_string(-rank) + " to " + std::to_string(rank - 1) +
                " for a shape of " + DimsText(first.tensor.view_dims) + ", got " + std::to_string(dim));
  }
  const auto axis = static_cast<size_t>(dim < 0 ? dim + rank : dim);
  for (size_t index = 1; index < listed.tensors.size(); ++index) {
    const Argument each = listed.At(index);
    CheckSameRank(each, first);
    for (size_t other = 0; other < each.tensor.view_dims.size(); ++other) {
      if (other != axis) CheckDim(each, other, "that of the first tensor", first.tensor.view_dims[other]);
    }
  }
  return axis;
}

// A tensor, and where its units begin among those of all.
struct JoinedPart {
  Movement movement;
  int64_t first_unit;
  int64_t target_bytes;  // from the first element of out
};

// A unit of small tensors is a whole one.
void RunParts(const std::vector<JoinedPart>& parts, int64_t units, int64_t unit_elements,
              const KernelArguments& launch) {
  launch.pool.ParallelFor(units, Grain(unit_elements), [&](int64_t begin, int64_t end) {
    const auto after = [](int64_t unit, const JoinedPart& part) { return unit < part.first_unit; };
    auto part = std::upper_bound(parts.begin(), parts.end(), begin, after) - 1;
    while (begin < end) {
      const int64_t last = std::min(end, part->first_unit + part->movement.units());
      part->movement.Run(launch.inputs[static_cast<size_t>(part - parts.begin())],
                         launch.outputs[0] + part->target_bytes, begin - part->first_unit, last - part->first_unit);
      begin = last;
      ++part;
    }
  });
}

}  // namespace

Plan PlanCat(const CatArguments& arguments) {
  CheckProduct(kAllProducts);
  Listed listed(arguments.tensors);
  if (listed.tensors.empty()) return {};
  const Argument out{"out", arguments.out};
  const aclDataType type = CheckTypes(listed, out);
  CheckNotPrivateFormat(listed.At(0));
  for (size_t index = 1; index < listed.tensors.size(); ++index) CheckSameFormat(listed.At(index), listed.At(0));
  CheckSameFormat(out, listed.At(0));
  const size_t axis = CheckShapes(listed, arguments.dim);
  Dims joined = listed.tensors[0]->view_dims;
  joined[axis] = 0;
  int64_t filled = 0;
  for (size_t index = 0; index < listed.tensors.size(); ++index) {
    CheckNoNegativeDim(listed.At(index));
    joined[axis] += listed.tensors[index]->view_dims[axis];
    filled += listed.tensors[index]->empty() ? 0 : 1;
  }
  if (filled == 0) return {};
  // A device looks at the shape when it copies: that of a copied tensor alone, with another code.
  const bool is_one_each = ElementCount(joined) == 1 && ElementCount(out.tensor.view_dims) == 1;
  if (out.tensor.view_dims != joined && !is_one_each) {
    FailShape(out, "the shape of the tensors behind each other, " + DimsText(joined),
              filled == 1 ? ACLNN_ERR_INNER_NULLPTR : ACLNN_ERR_PARAM_INVALID);
  }

  CheckAddressable(out);
  Plan plan;
  plan.AddStridedOutput(out.tensor);
  plan.PromiseTimeOfBytes();
  std::vector<JoinedPart> parts;
  const aclDataType to = out.tensor.data_type;
  const auto out_bytes = static_cast<int64_t>(aclDataTypeSize(to));
  int64_t units = 0;
  int64_t elements = 0;
  int64_t place = 0;
  const Dims strides = is_one_each ? Dims(joined.size(), 1) : out.tensor.strides;
  for (size_t index = 0; index < listed.tensors.size(); ++index) {
    const aclTensor& each = *listed.tensors[index];
    if (each.empty()) continue;
    CheckAddressable(listed.At(index));
    plan.AddStridedInput(each);
    // A tensor alone is cast at once.
    parts.push_back({Movement(each.view_dims, each.strides, each.data_type, filled == 1 ? to : type, strides, to),
                     units, place * strides[axis] * out_bytes});
    units += parts.back().movement.units();
    elements += ElementCount(each.view_dims);
    place += each.view_dims[axis];
  }
  plan.SetCompute([parts = std::move(parts), units, unit_elements = elements / units](const KernelArguments& launch) {
    RunParts(parts, units, unit_elements, launch);
  });
  return plan;
}

}  // namespace acl_host
