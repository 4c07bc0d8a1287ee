// The checks of an operator's arguments in phase 1. Each throws an OperatorError that names the parameter, the expected
// value and the given one. The function's name is added when the error leaves the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "errors/pointers.h"
#include "plan/plan.h"
#include "settings/product.h"
#include "tensors/axes.h"
#include "tensors/tensor.h"

namespace acl_host {

// A parameter, which must not be null.
struct Argument {
  Argument(const char* name_in, const aclTensor* pointer)
      : name(name_in), tensor(Required<OperatorError>(pointer, name_in)) {}

  const char* name;
  const aclTensor& tensor;
};

// A parameter that may be null.
using OptionalArgument = std::optional<Argument>;
[[nodiscard]] OptionalArgument IfGiven(const char* name, const aclTensor* pointer);

// A parameter, which must not be null.
struct IntArrayArgument {
  IntArrayArgument(const char* name_in, const aclIntArray* pointer)
      : name(name_in), values(Required<OperatorError>(pointer, name_in).values) {}

  const char* name;
  const Dims& values;
};

// The value of a real number of a parameter, which must not be null.
[[nodiscard]] double NumberOf(const aclScalar* scalar, const char* name);

// Which outputs are wanted. Operators differ in the codes of a null pointer and of another length.
struct MaskCodes {
  aclnnStatus null = ACLNN_ERR_PARAM_NULLPTR;
  aclnnStatus length = ACLNN_ERR_PARAM_INVALID;
};
[[nodiscard]] const std::vector<bool>& OutputMask(const aclBoolArray* mask, size_t outputs, MaskCodes codes = {});

// Unless a code is given, all of these fail with ACLNN_ERR_PARAM_INVALID.
[[noreturn]] void FailInvalid(const std::string& message);
// "self: expected no empty dim, got shape [0, 3]"
[[noreturn]] void FailShape(const Argument& argument, const std::string& expected,
                            aclnnStatus code = ACLNN_ERR_PARAM_INVALID);

// Fails for a product that is not among those of the operator.
void CheckProduct(Products products);
// Those of most operators; no operator has the 310B.
inline constexpr Products kAllProducts = {Product::k910A, Product::k910B, Product::k910_93, Product::k310P,
                                          Product::k950};
inline constexpr Products kNot310P = {Product::k910A, Product::k910B, Product::k910_93, Product::k950};

void CheckDataType(const Argument& argument, const std::vector<aclDataType>& allowed);
void CheckSameDataType(const Argument& argument, const Argument& reference);

void CheckRank(const Argument& argument, std::initializer_list<int64_t> allowed);
void CheckSameRank(const Argument& argument, const Argument& reference);
// At most 8, as CANN limits most operators.
void CheckMostDims(const Argument& argument);
void CheckNoNegativeDim(const Argument& argument);
// From dim first on.
void CheckNoEmptyDim(const Argument& argument, size_t first);
void CheckSameShape(const Argument& argument, const Argument& reference);
// what says where the expected shape comes from.
void CheckShape(const Argument& argument, const char* what, const Dims& expected);
// Of the first count dims alone.
void CheckSameLeadingDims(const Argument& argument, const Argument& reference, int64_t count);
// what says where the expected size comes from, for example "that of outputSize".
void CheckDim(const Argument& argument, size_t axis, const char* what, int64_t expected);

void CheckFormat(const Argument& argument, aclFormat expected);
void CheckNotPrivateFormat(const Argument& argument);
void CheckSameFormat(const Argument& argument, const Argument& reference);

// The offsets of all elements, and the bytes up to the last one, are not negative and fit in 63 bits.
void CheckAddressable(const Argument& argument);
// A plan that has these tensors, which are addressable.
[[nodiscard]] Plan PlanOf(std::initializer_list<Argument> inputs, std::initializer_list<Argument> outputs);

// How precisely matrix units compute: from 0 to 3.
void CheckCubeMathType(int8_t cube_math_type);
// Devices without BF16 multiply in FLOAT16, and refuse FLOAT unless cubeMathType allows that. Some use a number out of
// range to index a table.
void CheckCubeMathType(int8_t cube_math_type, bool multiplies_float);

// "kernelSize: expected 1 or 2 values, got [3, 3, 3]"
void CheckLength(const IntArrayArgument& argument, std::initializer_list<size_t> allowed,
                 aclnnStatus code = ACLNN_ERR_PARAM_INVALID);
void CheckEachPositive(const IntArrayArgument& argument);
void CheckEachAtLeast0(const IntArrayArgument& argument);

// values holds one number for both axes, or height and width.
[[nodiscard]] Pair ReadPair(const Dims& values);

// Windows over planes: without a stride, they lie side by side.
struct Windows {
  Pair kernel;
  Pair stride;
  Pair padding;
};
[[nodiscard]] Windows CheckWindows(const IntArrayArgument& kernel_size, const IntArrayArgument& stride,
                                   const IntArrayArgument& padding);

// The product of the configuration; fails with ACLNN_ERR_RUNTIME_ERROR before aclInit.
[[nodiscard]] Product CurrentProduct();

// FLOAT and FLOAT16, BF16 if the product has it, and these.
[[nodiscard]] std::vector<aclDataType> FloatTypes(std::initializer_list<aclDataType> more = {});

}  // namespace acl_host
