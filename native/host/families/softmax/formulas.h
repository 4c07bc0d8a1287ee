// For each function: what is added up along a row, and the gradient of an element given that sum.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include "families/softmax/computation.h"
#include "tensors/exp.h"
#include "tensors/lanes.h"

namespace acl_host {
namespace {

struct SoftmaxGradient {
  static FloatLanes Term(FloatLanes grad, FloatLanes output) { return grad * output; }
  static FloatLanes Cell(FloatLanes grad, FloatLanes output, FloatLanes sum) { return output * (grad - sum); }
};

struct LogSoftmaxGradient {
  static FloatLanes Term(FloatLanes grad, FloatLanes) { return grad; }
  static FloatLanes Cell(FloatLanes grad, FloatLanes output, FloatLanes sum) { return grad - Exp(output) * sum; }
};

// Calls visit with the gradient of the function.
template <typename Visitor>
void VisitGradient(RowFunction function, const Visitor& visit) {
  switch (function) {
    case RowFunction::kSoftmax:
      return visit(SoftmaxGradient{});
    case RowFunction::kLogSoftmax:
      return visit(LogSoftmaxGradient{});
  }
}

}  // namespace
}  // namespace acl_host
