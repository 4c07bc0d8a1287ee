// The checks that the functions of each element share, in the order in which each of them makes them, and their plans.
#pragma once

#include <initializer_list>
#include <vector>

#include "families/elementwise/operations.h"
#include "families/elementwise/promotion.h"
#include "families/elementwise/rules.h"
#include "plan/checks.h"

namespace acl_host {

// The real types of CANN's lists: FLOAT, FLOAT16, BF16 if the product has it, and DOUBLE; and all integers and BOOL.
[[nodiscard]] std::vector<aclDataType> RealTypes();
[[nodiscard]] std::vector<aclDataType> NumberTypes();

void CheckDataTypes(std::initializer_list<Argument> arguments, const std::vector<aclDataType>& types);
void CheckNumberType(const NumberArgument& argument, const std::vector<aclDataType>& types);

// The result may be of any type that CANN casts the promoted one to.
void CheckCast(aclDataType promoted, const Argument& result);
// The number may be of any type that CANN casts to the promoted one.
void CheckCast(const NumberArgument& number, aclDataType promoted);

// The inputs are broadcast to the result; they have at most 8 dims.
void CheckBroadcast(const ElementwiseTensors& tensors);
// The result has the shape of the one input.
void CheckUnaryShape(const ElementwiseTensors& tensors, bool limits_rank = true);

// FLOAT of integers, which these functions are computed in.
[[nodiscard]] aclDataType RealOf(aclDataType type);

// Of tensors that were checked. Does nothing if they are empty. Computes numbers of the promoted type.
[[nodiscard]] Plan PlanOperation(const ElementwiseTensors& tensors, const OperationOf& operation, aclDataType promoted);

// The same, but for results that are 1 or 0: these have no range to wrap around in.
[[nodiscard]] Plan PlanComparison(const ElementwiseTensors& tensors, const OperationOf& operation,
                                  aclDataType promoted);

}  // namespace acl_host
