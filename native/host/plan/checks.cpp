#include "plan/checks.h"

#include <algorithm>
#include <type_traits>

#include "device/runtime.h"
#include "tensors/data_type.h"
#include "tensors/elements.h"

namespace acl_host {
namespace {

[[noreturn]] void FailExpected(const Argument& argument, const std::string& expected, const std::string& got,
                               aclnnStatus code = ACLNN_ERR_PARAM_INVALID) {
  throw OperatorError(code, std::string(argument.name) + ": expected " + expected + ", got " + got);
}

template <typename Values, typename ToText>
std::string List(const Values& values, const ToText& to_text) {
  std::string text;
  for (const auto& value : values) text += (text.empty() ? "" : " or ") + to_text(value);
  return text;
}

}  // namespace

void FailInvalid(const std::string& message) { throw OperatorError(ACLNN_ERR_PARAM_INVALID, message); }

void FailShape(const Argument& argument, const std::string& expected, aclnnStatus code) {
  FailExpected(argument, expected, "shape " + DimsText(argument.tensor.view_dims), code);
}

OptionalArgument IfGiven(const char* name, const aclTensor* pointer) {
  return pointer == nullptr ? OptionalArgument() : Argument(name, pointer);
}

double NumberOf(const aclScalar* pointer, const char* name) {
  const aclScalar& scalar = Required<OperatorError>(pointer, name);
  const aclDataType type = scalar.data_type == ACL_BOOL ? ACL_UINT8 : scalar.data_type;
  const auto real = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16,  ACL_DOUBLE, ACL_INT8,
                     ACL_INT16, ACL_INT32,   ACL_INT64, ACL_UINT8};
  if (std::find(real.begin(), real.end(), type) == real.end()) {
    FailInvalid(std::string(name) + ": expected a real number, got " + DataTypeName(type));
  }
  double number = 0;
  VisitNumberType(type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if constexpr (std::is_arithmetic_v<Wide<T>>) number = static_cast<double>(LoadWide<T>(scalar.value.data(), 0));
  });
  return number;
}

const std::vector<bool>& OutputMask(const aclBoolArray* mask, size_t outputs, MaskCodes codes) {
  const std::vector<bool>& values = Required<OperatorError>(mask, "outputMask", codes.null).values;
  if (values.size() == outputs) return values;
  throw OperatorError(codes.length, "outputMask: expected " + std::to_string(outputs) + " values, got " +
                                        std::to_string(values.size()));
}

void CheckProduct(Products products) {
  const Product product = CurrentProduct();
  if (std::find(products.begin(), products.end(), product) != products.end()) return;
  const auto name_of = [](Product each) { return std::string(FactsOf(each).name); };
  FailInvalid("the product " + name_of(product) +
              " does not support this operator; these do: " + List(products, name_of));
}

void CheckDataType(const Argument& argument, const std::vector<aclDataType>& allowed) {
  const aclDataType type = argument.tensor.data_type;
  if (std::find(allowed.begin(), allowed.end(), type) != allowed.end()) return;
  FailExpected(argument, "data type " + List(allowed, DataTypeName), DataTypeName(type));
}

void CheckSameDataType(const Argument& argument, const Argument& reference) {
  const aclDataType type = argument.tensor.data_type;
  const aclDataType expected = reference.tensor.data_type;
  if (type == expected) return;
  FailExpected(argument, "the data type of " + std::string(reference.name) + ", " + DataTypeName(expected),
               DataTypeName(type));
}

void CheckRank(const Argument& argument, std::initializer_list<int64_t> allowed) {
  const int64_t rank = argument.tensor.rank();
  if (std::find(allowed.begin(), allowed.end(), rank) != allowed.end()) return;
  FailShape(argument, "rank " + List(allowed, [](int64_t value) { return std::to_string(value); }));
}

void CheckSameRank(const Argument& argument, const Argument& reference) {
  if (argument.tensor.rank() == reference.tensor.rank()) return;
  FailShape(argument, "the rank of " + std::string(reference.name) + ", " + std::to_string(reference.tensor.rank()));
}

void CheckMostDims(const Argument& argument) {
  if (argument.tensor.rank() > 8) FailShape(argument, "a rank of at most 8");
}

void CheckNoNegativeDim(const Argument& argument) {
  const Dims& dims = argument.tensor.view_dims;
  if (std::any_of(dims.begin(), dims.end(), [](int64_t dim) { return dim < 0; }))
    FailShape(argument, "no negative dim");
}

void CheckNoEmptyDim(const Argument& argument, size_t first) {
  const Dims& dims = argument.tensor.view_dims;
  const auto from = dims.begin() + static_cast<std::ptrdiff_t>(first);
  if (std::all_of(from, dims.end(), [](int64_t dim) { return dim > 0; })) return;
  FailShape(argument, first == 0 ? "no empty dim" : "no empty dim from dim " + std::to_string(first) + " on");
}

void CheckSameShape(const Argument& argument, const Argument& reference) {
  CheckShape(argument, ("the shape of " + std::string(reference.name)).c_str(), reference.tensor.view_dims);
}

void CheckShape(const Argument& argument, const char* what, const Dims& expected) {
  if (argument.tensor.view_dims == expected) return;
  FailExpected(argument, std::string(what) + ", " + DimsText(expected), DimsText(argument.tensor.view_dims));
}

void CheckSameLeadingDims(const Argument& argument, const Argument& reference, int64_t count) {
  const Dims& dims = argument.tensor.view_dims;
  const Dims& expected = reference.tensor.view_dims;
  if (std::equal(dims.begin(), dims.begin() + count, expected.begin())) return;
  FailExpected(argument,
               "the first " + std::to_string(count) + " dims of " + reference.name + ", " + DimsText(expected),
               DimsText(dims));
}

void CheckDim(const Argument& argument, size_t axis, const char* what, int64_t expected) {
  const Dims& dims = argument.tensor.view_dims;
  if (dims[axis] == expected) return;
  FailShape(argument, "dim " + std::to_string(axis) + " to be " + what + ", " + std::to_string(expected));
}

void CheckFormat(const Argument& argument, aclFormat expected) {
  if (argument.tensor.format == expected) return;
  FailExpected(argument, "format " + FormatName(expected), FormatName(argument.tensor.format));
}

void CheckNotPrivateFormat(const Argument& argument) {
  if (!IsPrivateFormat(argument.tensor.format)) return;
  FailExpected(argument, "a plain format such as NCHW or ND", FormatName(argument.tensor.format));
}

void CheckSameFormat(const Argument& argument, const Argument& reference) {
  if (argument.tensor.format == reference.tensor.format) return;
  FailExpected(argument, "the format of " + std::string(reference.name) + ", " + FormatName(reference.tensor.format),
               FormatName(argument.tensor.format));
}

void CheckAddressable(const Argument& argument) {
  const aclTensor& tensor = argument.tensor;
  if (const auto extent = ViewExtent(tensor); extent && extent->begin >= 0) return;
  FailExpected(argument, "a view inside its storage",
               "shape " + DimsText(tensor.view_dims) + ", strides " + DimsText(tensor.strides) + ", offset " +
                   std::to_string(tensor.offset));
}

Plan PlanOf(std::initializer_list<Argument> inputs, std::initializer_list<Argument> outputs) {
  Plan plan;
  for (const Argument& each : inputs) {
    CheckAddressable(each);
    plan.AddInput(each.tensor);
  }
  for (const Argument& each : outputs) {
    CheckAddressable(each);
    plan.AddOutput(each.tensor);
  }
  return plan;
}

void CheckCubeMathType(int8_t cube_math_type) {
  if (0 <= cube_math_type && cube_math_type <= 3) return;
  FailInvalid("cubeMathType: expected a value from 0 to 3, got " + std::to_string(cube_math_type));
}

void CheckCubeMathType(int8_t cube_math_type, bool multiplies_float) {
  CheckCubeMathType(cube_math_type);
  if (HasBf16(CurrentProduct()) || !multiplies_float || cube_math_type == 1 || cube_math_type == 2) return;
  FailInvalid("cubeMathType: expected 1 or 2 for FLOAT, got " + std::to_string(cube_math_type));
}

void CheckLength(const IntArrayArgument& argument, std::initializer_list<size_t> allowed, aclnnStatus code) {
  if (std::find(allowed.begin(), allowed.end(), argument.values.size()) != allowed.end()) return;
  throw OperatorError(code, std::string(argument.name) + ": expected " +
                                List(allowed, [](size_t length) { return std::to_string(length); }) + " values, got " +
                                DimsText(argument.values));
}

void CheckEachPositive(const IntArrayArgument& argument) {
  const Dims& values = argument.values;
  if (std::all_of(values.begin(), values.end(), [](int64_t value) { return value > 0; })) return;
  FailInvalid(std::string(argument.name) + ": expected values above 0, got " + DimsText(values));
}

void CheckEachAtLeast0(const IntArrayArgument& argument) {
  const Dims& values = argument.values;
  if (std::all_of(values.begin(), values.end(), [](int64_t value) { return value >= 0; })) return;
  FailInvalid(std::string(argument.name) + ": expected values of at least 0, got " + DimsText(values));
}

Pair ReadPair(const Dims& values) { return {values.front(), values.back()}; }

Windows CheckWindows(const IntArrayArgument& kernel_size, const IntArrayArgument& stride,
                     const IntArrayArgument& padding) {
  CheckLength(kernel_size, {1, 2});
  CheckEachPositive(kernel_size);
  CheckLength(stride, {0, 1, 2});
  CheckEachPositive(stride);
  CheckLength(padding, {1, 2});
  const Pair kernel = ReadPair(kernel_size.values);
  const Pair pads = ReadPair(padding.values);
  // Some device routes accept negative padding and read out of bounds.
  const auto fits = [](int64_t pad, int64_t size) { return 0 <= pad && pad <= size / 2; };
  if (!fits(pads.height, kernel.height) || !fits(pads.width, kernel.width)) {
    FailInvalid("padding: expected values from 0 to half of kernelSize, " + DimsText(kernel_size.values) + ", got " +
                DimsText(padding.values));
  }
  return {kernel, stride.values.empty() ? kernel : ReadPair(stride.values), pads};
}

Product CurrentProduct() { return Runtime::Current()->product(); }

std::vector<aclDataType> FloatTypes(std::initializer_list<aclDataType> more) {
  std::vector<aclDataType> types = {ACL_FLOAT, ACL_FLOAT16};
  if (HasBf16(CurrentProduct())) types.push_back(ACL_BF16);
  types.insert(types.end(), more);
  return types;
}

}  // namespace acl_host
