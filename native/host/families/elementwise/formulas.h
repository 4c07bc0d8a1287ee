// The gradient of each elementwise function: of one element, from the gradient of its result and the saved value; for
// float32, of the elements in a register.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <complex>
#include <type_traits>

#include "families/elementwise/computation.h"
#include "families/elementwise/maths.h"

namespace acl_host {
namespace {

// FloatLanes of float32, or one number of another type.
template <typename T>
constexpr bool kIsReal = std::is_same_v<T, FloatLanes> || std::is_floating_point_v<T>;

template <typename T>
[[nodiscard]] T Number(float value) {
  if constexpr (std::is_same_v<T, FloatLanes>) {
    return Filled(value);
  } else {
    return static_cast<T>(value);
  }
}

// Of x * sigmoid(x).
struct SiluGradient {
  FloatLanes operator()(FloatLanes grad, FloatLanes x) const {
    const Sigmoid sigmoid(x);
    return grad * (sigmoid.value * (1.0F + x * sigmoid.complement));
  }
};

// Of what the function returned.
struct SigmoidGradient {
  template <typename T, typename = std::enable_if_t<!std::is_integral_v<T>>>
  T operator()(T grad, T y) const {
    return grad * Conjugate((Number<T>(1) - y) * y);
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
  template <typename T, typename = std::enable_if_t<!std::is_integral_v<T>>>
  T operator()(T grad, T y) const {
    return grad * ((Number<T>(1) - y) * (Number<T>(1) + y));
  }
};

struct LeakyReluGradient {
  template <typename T, typename = std::enable_if_t<kIsReal<T>>>
  T operator()(T grad, T x) const {
    const T below = grad * Number<T>(slope);
    return x > Number<T>(0) ? grad : below;
  }

  float slope;
};

// At both kinks CANN takes the slope of the middle.
struct HardswishGradient {
  FloatLanes operator()(FloatLanes grad, FloatLanes x) const {
    const FloatLanes middle = grad * (x * (1.0F / 3.0F) + 0.5F);
    const FloatLanes above = x > 3.0F ? grad : middle;
    return x < -3.0F ? FloatLanes{} : above;
  }
};

// Integers are compared as they are.
struct ThresholdGradient {
  template <typename T, typename = std::enable_if_t<kIsReal<T> || std::is_integral_v<T>>>
  T operator()(T grad, T x) const {
    using Compared = std::conditional_t<std::is_integral_v<T>, double, T>;
    // A NaN is not below the threshold.
    return Compared(x) <= Number<Compared>(threshold) ? T{} : grad;
  }

  float threshold;
};

// Of x * Phi(x), with the distribution function Phi and the density phi of normal numbers.
struct GeluGradient {
  FloatLanes operator()(FloatLanes grad, FloatLanes x) const {
    constexpr float kDensityAtZero = 0.398942280F;
    const FloatLanes bounded = Bounded(x, 20.0F);
    const FloatLanes decay = Exp(-0.5F * bounded * bounded);
    // Products of the decay come last, because it may be subnormal.
    const FloatLanes ratio = MillsRatio(Size(bounded));
    const FloatLanes change = decay * (kDensityAtZero * bounded + (x < 0.0F ? ratio : -ratio));
    return grad * (x < 0.0F ? change : 1.0F + change);
  }
};

// Of x * sigmoid(2u), where u = sqrt(2 / pi) * (x + 0.044715 x^3): of 0.5 x (1 + tanh(u)).
struct GeluTanhGradient {
  FloatLanes operator()(FloatLanes grad, FloatLanes x) const {
    constexpr float kScale = 1.59576912F;  // 2 sqrt(2 / pi)
    constexpr float kCube = 0.044715F;
    // At the bounds, and at infinity, the derivative is 0 or 1.
    const FloatLanes bounded = Bounded(x, 20.0F);
    const FloatLanes square = bounded * bounded;
    const Sigmoid sigmoid(kScale * bounded * (1.0F + kCube * square));
    const FloatLanes slope = kScale * (1.0F + 3.0F * kCube * square);
    return grad * (sigmoid.value + bounded * slope * sigmoid.value * sigmoid.complement);
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
    case Function::kThreshold:
      return visit(ThresholdGradient{work.parameter});
    case Function::kGelu:
      return visit(GeluGradient{});
    case Function::kGeluTanh:
      return visit(GeluTanhGradient{});
  }
}

}  // namespace
}  // namespace acl_host
