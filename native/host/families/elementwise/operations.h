// The functions of each element: what they are, and their parameters. arithmetic.h, functions.h and powers.h have the
// formulas.
#pragma once

#include <cstdint>

#include "families/elementwise/computation.h"

namespace acl_host {

enum class Operation {
  kAdd,
  kMultiply,
  kDivide,
  kMaximum,
  kMinimum,
  kWhere,
  kEqual,
  kGreater,
  kGreaterOrEqual,
  kLess,
  kLessOrEqual,
  kClamp,
  kNegative,
  kAbsolute,
  kSquare,
  kCube,
  kReciprocal,
  kReciprocalSquare,
  kSqrt,
  kRsqrt,
  kPower,
  kExp,
  kLog,
  kSigmoid,
  kTanh,
  kRelu,
  kLeakyRelu,
  kSilu,
  kHardswish,
  kGelu,
  kGeluTanh,
};

// A parameter, which a formula takes as a number of the type that it computes in.
struct Number {
  double real = 0;
  int64_t integer = 0;
};

struct OperationOf {
  Operation operation;
  // What the second summand is multiplied by; the second operand, if it is a number; the exponent; the slope of
  // negative numbers; the least number of a range.
  Number number{};
  Number most{};              // of a range
  bool takes_number = false;  // in the place of a second tensor
};

template <VectorLevel>
struct ElementwiseForward {
  static void Run(const Elementwise& work, const OperationOf& operation, const KernelArguments& arguments);
};

}  // namespace acl_host
