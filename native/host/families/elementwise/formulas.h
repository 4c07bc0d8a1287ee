// The gradient of each elementwise function: of one element, from the gradient of its result and the saved value.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include "families/elementwise/computation.h"
#include "families/elementwise/maths.h"

namespace acl_host {
namespace {

// Of x * sigmoid(x).
struct SiluGradient {
  float operator()(float grad, float x) const {
    const Sigmoid sigmoid(x);
    return grad * sigmoid.value * (1.0F + x * sigmoid.complement);
  }
};

// Calls visit with the gradient of the function.
template <typename Visitor>
void VisitGradient(const Elementwise& work, const Visitor& visit) {
  switch (work.function) {
    case Function::kSilu:
      return visit(SiluGradient{});
  }
}

}  // namespace
}  // namespace acl_host
