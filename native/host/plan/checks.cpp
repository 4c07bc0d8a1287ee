#include "plan/checks.h"

#include <algorithm>
#include <cstring>

#include "device/runtime.h"
#include "tensors/data_type.h"

namespace acl_host {
namespace {

[[noreturn]] void FailExpected(const Argument& argument, const std::string& expected, const std::string& got) {
  FailInvalid(std::string(argument.name) + ": expected " + expected + ", got " + got);
}

template <typename Values, typename ToText>
std::string List(const Values& values, const ToText& to_text) {
  std::string text;
  for (const auto& value : values) text += (text.empty() ? "" : " or ") + to_text(value);
  return text;
}

}  // namespace

void FailInvalid(const std::string& message) { throw OperatorError(ACLNN_ERR_PARAM_INVALID, message); }

void CheckProduct(const Product& product, std::initializer_list<const char*> products) {
  const auto same = [&](const char* name) { return std::strcmp(name, product.name) == 0; };
  if (std::any_of(products.begin(), products.end(), same)) return;
  FailInvalid("the product " + std::string(product.name) + " does not support this operator; these do: " +
              List(products, [](const char* name) { return std::string(name); }));
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
  FailExpected(argument, "rank " + List(allowed, [](int64_t value) { return std::to_string(value); }),
               "shape " + DimsText(argument.tensor.view_dims));
}

void CheckSameRank(const Argument& argument, const Argument& reference) {
  if (argument.tensor.rank() == reference.tensor.rank()) return;
  FailExpected(argument, "the rank of " + std::string(reference.name) + ", " + std::to_string(reference.tensor.rank()),
               "shape " + DimsText(argument.tensor.view_dims));
}

void CheckNoNegativeDim(const Argument& argument) {
  const Dims& dims = argument.tensor.view_dims;
  if (std::any_of(dims.begin(), dims.end(), [](int64_t dim) { return dim < 0; })) {
    FailExpected(argument, "no negative dim", "shape " + DimsText(dims));
  }
}

void CheckSameShape(const Argument& argument, const Argument& reference) {
  if (argument.tensor.view_dims == reference.tensor.view_dims) return;
  FailExpected(argument, "the shape of " + std::string(reference.name) + ", " + DimsText(reference.tensor.view_dims),
               DimsText(argument.tensor.view_dims));
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
  FailExpected(argument, "dim " + std::to_string(axis) + " to be " + what + ", " + std::to_string(expected),
               "shape " + DimsText(dims));
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
  if (tensor.empty()) return;
  int64_t lowest = tensor.offset;
  int64_t highest = tensor.offset;
  bool overflow = false;
  for (size_t axis = 0; axis < tensor.view_dims.size(); ++axis) {
    int64_t reach = 0;
    overflow |= __builtin_mul_overflow(tensor.view_dims[axis] - 1, tensor.strides[axis], &reach);
    int64_t& end = reach < 0 ? lowest : highest;
    overflow |= __builtin_add_overflow(end, reach, &end);
  }
  int64_t count = 0;
  int64_t bytes = 0;
  const auto element_bytes = static_cast<int64_t>(aclDataTypeSize(tensor.data_type));
  overflow |= __builtin_add_overflow(highest, 1, &count);
  overflow |= __builtin_mul_overflow(count, element_bytes, &bytes);
  if (overflow || lowest < 0) {
    FailExpected(argument, "a view inside its storage",
                 "shape " + DimsText(tensor.view_dims) + ", strides " + DimsText(tensor.strides) + ", offset " +
                     std::to_string(tensor.offset));
  }
}

std::vector<aclDataType> FloatTypes(const Product& product) {
  if (product.bfloat16) return {ACL_FLOAT, ACL_FLOAT16, ACL_BF16};
  return {ACL_FLOAT, ACL_FLOAT16};
}

const Product& CurrentProduct() { return Runtime::Current()->product(); }

}  // namespace acl_host
