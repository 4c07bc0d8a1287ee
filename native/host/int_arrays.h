// The checks of integer arrays, the attributes of operators. As in checks.h, each throws an OperatorError with
// ACLNN_ERR_PARAM_INVALID that names the parameter.
#ifndef ACL_HOST_INT_ARRAYS_H_
#define ACL_HOST_INT_ARRAYS_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "tensor.h"

namespace acl_host {

// A parameter that was found not to be null.
struct IntArrayArgument {
  const char* name;
  const Dims& values;
};

void CheckLength(const IntArrayArgument& argument, std::initializer_list<size_t> allowed);
[[nodiscard]] bool HasLength(const IntArrayArgument& argument, std::initializer_list<size_t> allowed);

// "kernelSize: expected 1 or 2 values, got [3, 3, 3]"
[[nodiscard]] std::string LengthMessage(const IntArrayArgument& argument, std::initializer_list<size_t> allowed);

void CheckEachPositive(const IntArrayArgument& argument);

// What two-dimensional windows have one of for each axis.
struct Pair {
  int64_t height;
  int64_t width;

  [[nodiscard]] bool operator==(const Pair& other) const { return height == other.height && width == other.width; }
};

// values holds one number for both axes, or height and width.
[[nodiscard]] Pair ReadPair(const Dims& values);

}  // namespace acl_host

#endif  // ACL_HOST_INT_ARRAYS_H_
