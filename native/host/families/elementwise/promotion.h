// The types that CANN computes in and casts results to, and the numbers that stand beside tensors.
#pragma once

#include "families/elementwise/operations.h"
#include "plan/checks.h"

namespace acl_host {

[[nodiscard]] bool IsHalf(aclDataType type);
// Integers, and BOOL too.
[[nodiscard]] bool IsWhole(aclDataType type);

// The least type that holds the numbers of both, as torch.promote_types.
[[nodiscard]] aclDataType Promoted(aclDataType one, aclDataType other);
// Of a tensor and a number, which counts only if it is of a higher kind: an integer, or a real number.
[[nodiscard]] aclDataType PromotedWithNumber(aclDataType tensor, aclDataType number);

// No real number becomes an integer, and no other number a BOOL.
[[nodiscard]] bool CanCast(aclDataType from, aclDataType to);

// A number of a parameter, which must not be null.
struct NumberArgument {
  NumberArgument(const char* name_in, const aclScalar* pointer)
      : name(name_in), scalar(Required<OperatorError>(pointer, name_in)) {}

  [[nodiscard]] aclDataType type() const { return scalar.data_type; }
  // Fails unless it is real.
  [[nodiscard]] Number number() const;

  const char* name;
  const aclScalar& scalar;
};

}  // namespace acl_host
