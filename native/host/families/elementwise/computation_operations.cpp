#include <type_traits>
#include <utility>

#include "families/elementwise/arithmetic.h"
#include "families/elementwise/functions.h"
#include "families/elementwise/mapping.h"
#include "families/elementwise/operations.h"
#include "families/elementwise/powers.h"

namespace acl_host {
namespace {

// Calls visit with the formula for results of this type.
template <template <typename> class Formula, typename Visitor>
void VisitPrecise(aclDataType result, const Visitor& visit) {
  const bool is_half = result == ACL_FLOAT16 || result == ACL_BF16;
  return is_half ? visit(Formula<Float16>{}) : visit(Formula<float>{});
}

// Calls visit with the formula of the operation.
template <typename Visitor>
void VisitOperation(const OperationOf& of, aclDataType result, const Visitor& visit) {
  const Number& number = of.number;
  const auto visit_binary = [&](const auto& formula) {
    using Formula = std::decay_t<decltype(formula)>;
    return of.takes_number ? visit(WithNumber<Formula>{formula, number}) : visit(formula);
  };
  switch (of.operation) {
    case Operation::kAdd:
      return visit_binary(Add{of.takes_number ? Number{1, 1} : number});
    case Operation::kMultiply:
      return visit_binary(Multiply{});
    case Operation::kDivide:
      return visit_binary(Divide{});
    case Operation::kMaximum:
      return visit(Maximum{});
    case Operation::kMinimum:
      return visit(Minimum{});
    case Operation::kWhere:
      return visit(Where{});
    case Operation::kEqual:
      return visit_binary(Equal{});
    case Operation::kGreater:
      return visit_binary(Greater{});
    case Operation::kGreaterOrEqual:
      return visit(WithNumber<GreaterOrEqual>{{}, number});
    case Operation::kLess:
      return visit(WithNumber<Swapped<Greater>>{{}, number});
    case Operation::kLessOrEqual:
      return visit(WithNumber<Swapped<GreaterOrEqual>>{{}, number});
    case Operation::kClamp:
      return visit(Clamp{number, of.most});
    case Operation::kNegative:
      return visit(Negate{});
    case Operation::kAbsolute:
      return visit(Absolute{});
    case Operation::kSquare:
      return visit(Square{});
    case Operation::kCube:
      return visit(Cube{});
    case Operation::kReciprocal:
      return visit(Reciprocal{});
    case Operation::kReciprocalSquare:
      return visit(ReciprocalSquare{});
    case Operation::kSqrt:
      return visit(Sqrt{});
    case Operation::kRsqrt:
      return visit(Rsqrt{});
    case Operation::kPower:
      return visit(Power{number});
    case Operation::kExp:
      return VisitPrecise<Exponential>(result, visit);
    case Operation::kLog:
      return VisitPrecise<Logarithm>(result, visit);
    case Operation::kSigmoid:
      return VisitPrecise<SigmoidOf>(result, visit);
    case Operation::kTanh:
      return VisitPrecise<Tanh>(result, visit);
    case Operation::kRelu:
      return visit(Relu{});
    case Operation::kLeakyRelu:
      return visit(LeakyRelu{number});
    case Operation::kSilu:
      return VisitPrecise<Silu>(result, visit);
    case Operation::kHardswish:
      return visit(Hardswish{});
    case Operation::kGelu:
      return VisitPrecise<Gelu>(result, visit);
    case Operation::kGeluTanh:
      return VisitPrecise<GeluTanh>(result, visit);
  }
}

}  // namespace

template <>
void ElementwiseForward<VECTOR_LEVEL>::Run(const Elementwise& work, const OperationOf& operation,
                                           const KernelArguments& arguments) {
  VisitOperation(operation, work.result, [&](const auto& formula) {
    const auto map = [&](auto tag) {
      using T = typename decltype(tag)::Type;
      constexpr size_t kInputs = kInputsOf<std::decay_t<decltype(formula)>, T>;
      if constexpr (kInputs > 0) {
        MapElements<T>(formula, work, arguments, work.computed, std::make_index_sequence<kInputs>());
      }
    };
    if (work.computed == ACL_FLOAT) return map(TypeTag<float>{});
    if (work.computed == ACL_DOUBLE) return map(TypeTag<double>{});
    return map(TypeTag<int64_t>{});
  });
}

}  // namespace acl_host
