// The checks of an operator's tensors in phase 1. Each throws an OperatorError that names the parameter, the expected
// value and the given one. The function's name is added when the error leaves the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "errors/pointers.h"
#include "settings/product.h"
#include "tensors/tensor.h"

namespace acl_host {

// A parameter, which must not be null.
struct Argument {
  Argument(const char* name_in, const aclTensor* pointer)
      : name(name_in), tensor(Required<OperatorError>(pointer, name_in)) {}

  const char* name;
  const aclTensor& tensor;
};

// All of these fail with ACLNN_ERR_PARAM_INVALID.
[[noreturn]] void FailInvalid(const std::string& message);

// products are names of Product rows.
void CheckProduct(const Product& product, std::initializer_list<const char*> products);

void CheckDataType(const Argument& argument, const std::vector<aclDataType>& allowed);
void CheckSameDataType(const Argument& argument, const Argument& reference);

void CheckRank(const Argument& argument, std::initializer_list<int64_t> allowed);
void CheckSameRank(const Argument& argument, const Argument& reference);
void CheckNoNegativeDim(const Argument& argument);
void CheckSameShape(const Argument& argument, const Argument& reference);
// Of the first count dims alone.
void CheckSameLeadingDims(const Argument& argument, const Argument& reference, int64_t count);
// what says where the expected size comes from, for example "that of outputSize".
void CheckDim(const Argument& argument, size_t axis, const char* what, int64_t expected);

void CheckFormat(const Argument& argument, aclFormat expected);
void CheckNotPrivateFormat(const Argument& argument);
void CheckSameFormat(const Argument& argument, const Argument& reference);

// The offsets of all elements, and the bytes up to the last one, are not negative and fit in 63 bits.
void CheckAddressable(const Argument& argument);

// FLOAT and FLOAT16, and BF16 if the product has it.
[[nodiscard]] std::vector<aclDataType> FloatTypes(const Product& product);

// The product of the configuration; fails with ACLNN_ERR_RUNTIME_ERROR before aclInit.
[[nodiscard]] const Product& CurrentProduct();

}  // namespace acl_host
