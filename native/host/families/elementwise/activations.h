// The gradients of activations: of one element, from the gradient of its result and the saved value; for
// float32, of the elements in a register.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <complex>
#include <type_traits>

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

// With the factors of what is below 0: of the exponential, of all, and of the argument.
struct EluGradient {
  FloatLanes operator()(FloatLanes grad, FloatLanes x) const {
    const FloatLanes below = grad * input_scale * coefficient * Exp(x * input_scale);
    return x > 0.0F ? grad * scale : below;
  }

  float coefficient;  // alpha * scale
  float scale;
  float input_scale;
};

// The same of what the function returned.
struct EluOfResultGradient {
  FloatLanes operator()(FloatLanes grad, FloatLanes y) const {
    const FloatLanes below = grad * input_scale * (y + coefficient);
    return y > 0.0F ? grad * scale : below;
  }

  float coefficient;
  float scale;
  float input_scale;
};

// Of log(1 + exp(beta * x)) / beta, and above the threshold of x.
struct SoftplusGradient {
  FloatLanes operator()(FloatLanes grad, FloatLanes x) const {
    const FloatLanes scaled = x * beta;
    return scaled > threshold ? grad : grad * Sigmoid(scaled).value;
  }

  float beta;
  float threshold;
};

// A NaN is neither below nor above.
struct HardtanhGradient {
  FloatLanes operator()(FloatLanes grad, FloatLanes x) const {
    const FloatLanes above = x >= most ? FloatLanes{} : grad;
    return x <= least ? FloatLanes{} : above;
  }

  float least;
  float most;
};

// A NaN has no gradient.
struct HardsigmoidGradient {
  FloatLanes operator()(FloatLanes grad, FloatLanes x) const {
    return Size(x) < 3.0F ? grad * (1.0F / 6.0F) : FloatLanes{};
  }
};

// Of x * tanh(log(1 + exp(x))); not a number at both infinities, as that of PyTorch. With n = exp(-|x|), products of n
// come last, because it may be subnormal.
struct MishGradient {
  FloatLanes operator()(FloatLanes grad, FloatLanes x) const {
    const FloatLanes bounded = Bounded(x, 110.0F);
    const FloatLanes n = Exp(-Size(bounded));
    const FloatLanes four = 4.0F * bounded + 4.0F;
    const FloatLanes six = 4.0F * bounded + 6.0F;
    const FloatLanes above = 1.0F + n * (4.0F + n * (six + n * four));
    const FloatLanes below = four + n * (six + n * (4.0F + n));
    const FloatLanes root_above = 1.0F + n * (2.0F + 2.0F * n);
    const FloatLanes root_below = 2.0F + n * (2.0F + n);
    const FloatLanes root = x < 0.0F ? root_below : root_above;
    const FloatLanes ratio = (x < 0.0F ? below : above) / (root * root);
    return grad * ((x < 0.0F ? ratio * n : ratio) + (x - x));
  }
};

// Of log(sigmoid(x)).
struct LogSigmoidGradient {
  FloatLanes operator()(FloatLanes grad, FloatLanes x) const { return grad * Sigmoid(x).complement; }
};

// Of what is 0 up to a bound on both sides, whether the rest is moved to 0 or not. A NaN is beyond.
struct ShrinkGradient {
  FloatLanes operator()(FloatLanes grad, FloatLanes x) const { return Size(x) <= bound ? FloatLanes{} : grad; }

  float bound;
};

}  // namespace
}  // namespace acl_host
