// The checks of integer arrays, the attributes of operators. As in checks.h, each throws an OperatorError with
// ACLNN_ERR_PARAM_INVALID that names the parameter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "errors/pointers.h"
#include "tensors/tensor.h"

namespace acl_host {

// A parameter, which must not be null.
struct IntArrayArgument {
  IntArrayArgument(const char* name_in, const aclIntArray* pointer)
      : name(name_in), values(Required<OperatorError>(pointer, name_in).values) {}

  const char* name;
  const Dims& values;
};

void CheckLength(const IntArrayArgument& argument, std::initializer_list<size_t> allowed);
[[nodiscard]] bool HasLength(const IntArrayArgument& argument, std::initializer_list<size_t> allowed);

// "kernelSize: expected 1 or 2 values, got [3, 3, 3]"
[[nodiscard]] std::string LengthMessage(const IntArrayArgument& argument, std::initializer_list<size_t> allowed);

void CheckEachPositive(const IntArrayArgument& argument);

// A value for each axis of two-dimensional windows.
struct Pair {
  int64_t height;
  int64_t width;

  [[nodiscard]] bool operator==(const Pair& other) const { return height == other.height && width == other.width; }
};

// values holds one number for both axes, or height and width.
[[nodiscard]] Pair ReadPair(const Dims& values);

}  // namespace acl_host
