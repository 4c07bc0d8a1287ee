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
  template <typename T, typename = std::enable_if_t<!std::is_integral_v<T>>>
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
  template <typename T, typename = std::enable_if_t<!std::is_integral_v<T>>>
  T operator()(T grad, T y) const {
    return grad * ((T(1) - y) * (T(1) + y));
  }
};

struct LeakyReluGradient {
  template <typename T, typename = std::enable_if_t<std::is_floating_point_v<T>>>
  T operator()(T grad, T x) const {
    const T below = grad * static_cast<T>(slope);
    return x > 0 ? grad : below;
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

// Integers are compared as they are.
struct ThresholdGradient {
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
  T operator()(T grad, T x) const {
    using Compared = std::conditional_t<std::is_integral_v<T>, double, T>;
    // A NaN is not below the threshold.
    return static_cast<Compared>(x) <= static_cast<Compared>(threshold) ? T{0} : grad;
  }

  float threshold;
};

// Of x * Phi(x), with the distribution function Phi and the density phi of normal numbers.
struct GeluGradient {
  float operator()(float grad, float x) const {
    constexpr float kDensityAtZero = 0.398942280F;
    const float bounded = Bounded(x, 20.0F);
    const float size = std::abs(bounded);
    const float decay = ExpOfNegative(-0.5F * bounded * bounded);
    const float tail = decay * MillsRatio(size);
    const float phi = kDensityAtZero * decay;
    return grad * ((x < 0 ? tail : 1.0F - tail) + bounded * phi);
  }
};

// Of x * sigmoid(2u), where u = sqrt(2 / pi) * (x + 0.044715 x^3): of 0.5 x (1 + tanh(u)).
struct GeluTanhGradient {
  float operator()(float grad, float x) const {
    constexpr float kScale = 1.59576912F;  // 2 sqrt(2 / pi)
    constexpr float kCube = 0.044715F;
    // At the bounds, and at infinity, the derivative is 0 or 1.
    const float bounded = Bounded(x, 20.0F);
    const float square = bounded * bounded;
    const Sigmoid sigmoid(kScale * bounded * (1.0F + kCube * square));
    const float slope = kScale * (1.0F + 3.0F * kCube * square);
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
