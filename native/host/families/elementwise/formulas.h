// The gradient of each elementwise function: of one element, from the gradient of its result and the saved value.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <complex>
#include <type_traits>

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

// Of what the function returned.
struct SigmoidGradient {
  template <typename T>
  T operator()(T grad, T y) const {
    return grad * Conjugate((T(1) - y) * y);
  }

  template <typename T>
  static T Conjugate(T value) {
    return value;
  }
  template <typename T>
  static std::complex<T> Conjugate(std::complex<T> value) {
    return std::conj(value);
  }
};

// Of what the function returned.
struct TanhGradient {
  template <typename T>
  T operator()(T grad, T y) const {
    return grad * ((T(1) - y) * (T(1) + y));
  }
};

struct LeakyReluGradient {
  template <typename T, typename = std::enable_if_t<std::is_floating_point_v<T>>>
  T operator()(T grad, T x) const {
    return x > 0 ? grad : grad * static_cast<T>(slope);
  }

  float slope;
};

// At both kinks CANN takes the slope of the middle.
struct HardswishGradient {
  float operator()(float grad, float x) const {
    const float middle = grad * (x * (1.0F / 3.0F) + 0.5F);
    return x < -3 ? 0 : (x > 3 ? grad : middle);
  }
};

// Calls visit with the gradient of the function.
template <typename Visitor>
void VisitGradient(const Elementwise& work, const Visitor& visit) {
  switch (work.function) {
    case Function::kSilu:
      return visit(SiluGradient{});
    case Function::kSigmoid:
      return visit(SigmoidGradient{});
    case Function::kTanh:
      return visit(TanhGradient{});
    case Function::kLeakyRelu:
      return visit(LeakyReluGradient{work.parameter});
    case Function::kHardswish:
      return visit(HardswishGradient{});
  }
}

}  // namespace
}  // namespace acl_host
