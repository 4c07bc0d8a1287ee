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
template <typename T>
struct SiluGradient {
  FloatLanes operator()(FloatLanes grad, FloatLanes x) const {
    const Sigmoid<T> sigmoid(x);
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
template <typename T>
struct GeluGradient {
  FloatLanes operator()(FloatLanes grad, FloatLanes x) const {
    const FloatLanes size = AtMost(Size(x), 18.0F);
    const FloatLanes decay = Exp2Within<T>(size * size * (-0.5F * kLog2E));
    // Products of the decay come last, because it may be subnormal.
    const FloatLanes change = WithSign(decay * GeluTail<T>(size), x);
    return grad * (BitCast<WordLanes>(x) >= 0x80000000U ? change : 1.0F + change);
  }
};

// Of x * sigmoid(2u), where u = sqrt(2 / pi) * (x + 0.044715 x^3): of 0.5 x (1 + tanh(u)).
template <typename T>
struct GeluTanhGradient {
  FloatLanes operator()(FloatLanes grad, FloatLanes x) const {
    constexpr float kScale = 1.59576912F;  // 2 sqrt(2 / pi)
    constexpr float kCube = 0.044715F * kScale;
    // At the bound, and at infinity, the derivative is 0 or 1.
    const FloatLanes size = AtMost(Size(x), 10.75F);
    const FloatLanes square = size * size;
    const FloatLanes tail = Exp2Within<T>(size * (-kLog2E * kScale - kLog2E * kCube * square));
    const FloatLanes larger = 1.0F / (1.0F + tail);
    const FloatLanes slope = size * (kScale + 3.0F * kCube * square);
    // That of -|x|. The tail comes last, because it may be subnormal.
    const FloatLanes below = larger * (1.0F - slope * larger) * tail;
    return grad * (x < 0.0F ? below : 1.0F - below);
  }
};

// With the factors of what is below 0: of the exponential, of all, and of the argument.
template <typename T>
struct EluGradient {
  FloatLanes operator()(FloatLanes grad, FloatLanes x) const {
    const FloatLanes below = grad * input_scale * coefficient * ExpOf<T>(x * input_scale);
    return x <= 0.0F ? below : grad * scale;
  }

  float coefficient;  // alpha * scale
  float scale;
  float input_scale;
};

// The same of what the function returned.
struct EluOfResultGradient {
  FloatLanes operator()(FloatLanes grad, FloatLanes y) const {
    const FloatLanes below = grad * input_scale * (y + coefficient);
    return y <= 0.0F ? below : grad * scale;
  }

  float coefficient;
  float scale;
  float input_scale;
};

// Of log(1 + exp(beta * x)) / beta, and above the threshold of x.
template <typename T>
struct SoftplusGradient {
  FloatLanes operator()(FloatLanes grad, FloatLanes x) const {
    const FloatLanes scaled = x * beta;
    return scaled > threshold ? grad : grad * Sigmoid<T>(scaled).value;
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

// Of x * tanh(log(1 + exp(x))); not a number at both infinities, as that of PyTorch.
template <typename T>
struct MishGradient {
  FloatLanes operator()(FloatLanes grad, FloatLanes x) const {
    // At the upper bound the derivative is 1, and no product of exponentials too large.
    const FloatLanes bounded = AtMost(AtLeast(x, -110.0F), 20.0F);
    const FloatLanes power = ExpNear<T>(bounded);
    const FloatLanes plus_two = power + 2.0F;
    const FloatLanes root = power * plus_two + 2.0F;
    const FloatLanes sum = plus_two * root + 4.0F * bounded * (power + 1.0F);
    // The exponential comes last, because it may be subnormal.
    return grad * (sum / (root * root) * power + (x - x));
  }
};

// Of log(sigmoid(x)).
template <typename T>
struct LogSigmoidGradient {
  FloatLanes operator()(FloatLanes grad, FloatLanes x) const { return grad * Sigmoid<T>(x).complement; }
};

// Of what is 0 up to a bound on both sides, whether the rest is moved to 0 or not. A NaN is beyond.
struct ShrinkGradient {
  FloatLanes operator()(FloatLanes grad, FloatLanes x) const { return Size(x) <= bound ? FloatLanes{} : grad; }

  float bound;
};

}  // namespace
}  // namespace acl_host
