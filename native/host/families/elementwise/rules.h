// The checks that elementwise operators share, in the order in which each of them makes them, and their plans.
#pragma once

#include <initializer_list>
#include <optional>
#include <vector>

#include "families/elementwise/computation.h"
#include "plan/checks.h"

namespace acl_host {

// How the types of the tensors have to fit each other: all are equal; or those of the inputs are, or are promoted, and
// the result is of the promoted type, or of any type that it can be cast to.
enum class Types { kEqual, kEqualInputs, kPromoted, kCast };

// How the shapes have to: all are equal; or the inputs are broadcast to that of the result, or to that of self, which
// the result has too.
enum class Shapes { kEqual, kBroadcast, kToSelf };

// The differences between the operators' checks.
struct ElementwiseRules {
  std::vector<aclDataType> types;
  Types types_fit = Types::kEqual;
  Shapes shapes_fit = Shapes::kBroadcast;
  bool limits_rank = true;
};

// The inputs of a gradient are gradOutput, what the function saved, such as self, and more if it has them.
struct ElementwiseTensors {
  ElementwiseTensors(const Argument& grad_output_in, const Argument& saved_in, const Argument& result_in)
      : ElementwiseTensors({grad_output_in, saved_in}, result_in) {}
  ElementwiseTensors(std::initializer_list<OptionalArgument> inputs_in, const Argument& result_in)
      : inputs(inputs_in), result(result_in) {}

  const std::vector<OptionalArgument> inputs;
  const Argument result;

  [[nodiscard]] const Argument& grad_output() const { return *inputs[0]; }
  [[nodiscard]] const Argument& saved() const { return *inputs[1]; }
  // The inputs that are given, and the result.
  [[nodiscard]] std::vector<Argument> all() const;
};

void CheckTypes(const ElementwiseRules& rules, const ElementwiseTensors& tensors);
void CheckRanks(const ElementwiseRules& rules, const ElementwiseTensors& tensors);
void CheckShapes(const ElementwiseRules& rules, const ElementwiseTensors& tensors);

// The type that holds the numbers of all inputs; CANN's own promotion for the types of these operators.
[[nodiscard]] aclDataType PromotedType(const ElementwiseTensors& tensors);

// An input as it lies beside a contiguous result of these dims, to which it is broadcast.
[[nodiscard]] ElementwiseInput InputOf(const Argument& argument, const Dims& dims);

// Adds tensors that were checked to a plan; nothing if they are empty.
[[nodiscard]] std::optional<Elementwise> AddOperands(Plan& plan, const ElementwiseTensors& tensors,
                                                     aclDataType promoted, aclDataType computed);

// Of tensors that were checked. Does nothing if they are empty. Computes in the promoted type, unless another is given.
[[nodiscard]] Plan PlanElementwise(const ElementwiseTensors& tensors, Function function, Parameters parameters = {},
                                   std::optional<aclDataType> computed = std::nullopt);

// The types, the ranks and the shapes are checked in this order, and planned.
[[nodiscard]] Plan CheckAndPlan(const ElementwiseRules& rules, const ElementwiseTensors& tensors, Function function,
                                Parameters parameters = {});

}  // namespace acl_host
