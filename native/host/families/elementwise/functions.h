// Exponential functions of numbers, and the activations that are made of them: as precise as elements of type T, which
// is float, or Float16 for both types of 16 bits. In an unnamed namespace, because each vector level has its own.
#pragma once

#include <cmath>
#include <type_traits>

#include "families/elementwise/maths.h"

namespace acl_host {
namespace {

template <typename T>
struct Exponential {
  FloatLanes operator()(FloatLanes x) const { return ExpOf<T>(x); }
  double operator()(double x) const { return std::exp(x); }
};

template <typename T>
struct Logarithm {
  FloatLanes operator()(FloatLanes x) const {
    // Subnormal numbers become normal ones.
    constexpr float kScale = 8388608.0F;     // 2^23
    constexpr uint32_t kRoot = 0x3F3504F3U;  // of 1/2
    const auto is_small = x < 1.17549435e-38F;
    const auto bits = BitCast<WordLanes>(FloatLanes{is_small ? x * kScale : x});
    const WordLanes steps = (bits - kRoot + (uint32_t{1} << 30)) >> 23;  // the exponent + 128
    const FloatLanes mantissa = BitCast<FloatLanes>(WordLanes{bits - ((steps - 128U) << 23)});
    const FloatLanes shifted = BitCast<FloatLanes>(WordLanes{steps | 0x4B000000U}) - (kScale + 128.0F);
    const FloatLanes exponent = is_small ? shifted - 23.0F : shifted;
    const FloatLanes number = exponent * 0.693138123F + OfOnePlus(mantissa - 1.0F, exponent * 9.05800061e-6F);
    const FloatLanes positive = x == HUGE_VALF ? x : number;
    const FloatLanes not_negative = x == 0.0F ? Filled(-HUGE_VALF) : positive;
    const FloatLanes any = x < 0.0F ? Filled(NAN) : not_negative;
    return x != x ? x : any;
  }
  double operator()(double x) const { return std::log(x); }

 private:
  // Of numbers between the square roots of 1/2 and of 2, and what is added to it.
  static FloatLanes OfOnePlus(FloatLanes f, FloatLanes more) {
    if constexpr (std::is_same_v<T, float>) {
      const FloatLanes s = f / (2.0F + f);
      const FloatLanes square = s * s;
      // 2 artanh(s): f - f^2/2 + s (f^2/2 + what is left of the series).
      const FloatLanes rest = ((0.2987121F * square + 0.39977565F) * square + 0.66666776F) * square;
      const FloatLanes half_square = 0.5F * f * f;
      return f - (half_square - (s * (half_square + rest) + more));
    } else {
      const FloatLanes upper = (0.1765741F * f - 0.27093747F) * f + 0.3363882F;
      return ((upper * f - 0.49945113F) * f + 0.9999662F) * f + more;
    }
  }
};

template <typename T>
struct SigmoidOf {
  FloatLanes operator()(FloatLanes x) const { return Sigmoid<T>(x).value; }
  double operator()(double x) const {
    const double tail = std::exp(-std::abs(x));
    return (x < 0 ? tail : 1) / (1 + tail);
  }
};

template <typename T>
struct Silu {
  FloatLanes operator()(FloatLanes x) const { return x * Sigmoid<T>(x).value; }
};

template <typename T>
struct Tanh {
  FloatLanes operator()(FloatLanes x) const {
    const FloatLanes size = Size(x);
    const FloatLanes large = 1.0F - 2.0F / (ExpNear<T>(AtMost(size + size, 40.0F)) + 1.0F);
    // Next to 0 that difference would cancel.
    return WithSign(size < 0.625F ? size + size * Rest(size * size) : large, x);
  }
  double operator()(double x) const { return std::tanh(x); }

 private:
  // tanh(x) / x - 1 of the square.
  static FloatLanes Rest(FloatLanes square) {
    if constexpr (std::is_same_v<T, float>) {
      const FloatLanes upper = (-0.005666942F * square + 0.02060615F) * square - 0.05373F;
      return ((upper * square + 0.13331331F) * square - 0.33333278F) * square;
    } else {
      return (0.108034514F * square - 0.33038434F) * square;
    }
  }
};

// x * Phi(x), with the distribution function Phi of normal numbers.
template <typename T>
struct Gelu {
  FloatLanes operator()(FloatLanes x) const {
    const FloatLanes size = AtMost(Size(x), 18.0F);
    const FloatLanes tail = Tail(size);
    const FloatLanes decay = Decay(size);
    // The exponential comes last, because it may be subnormal.
    return x < 0.0F ? x * tail * decay : x * (1.0F - tail * decay);
  }

 private:
  // exp(-x^2 / 2).
  static FloatLanes Decay(FloatLanes x) {
    if constexpr (std::is_same_v<T, float>) {
      // Of two parts of the square, of which the first is exact.
      const auto head = BitCast<FloatLanes>(WordLanes{BitCast<WordLanes>(x) & 0xFFFFF000U});
      const FloatLanes rest = (x - head) * (x + head) * -0.5F;
      return ExpWithin(head * head * -0.5F) * (((rest * (1.0F / 6.0F) + 0.5F) * rest + 1.0F) * rest + 1.0F);
    } else {
      return Exp2Within<T>(x * x * (-0.5F * kLog2E));
    }
  }

  // (1 - Phi(x)) / exp(-x^2 / 2): the smallest relative errors.
  static FloatLanes Tail(FloatLanes x) {
    constexpr float kCentre = std::is_same_v<T, float> ? 3.0F : 2.5F;
    const FloatLanes sum = x + kCentre;
    const FloatLanes t = (x - kCentre) / sum;
    const FloatLanes square = t * t;
    if constexpr (std::is_same_v<T, float>) {
      const FloatLanes first = -2.5933757e-4F * square + (-8.9256006e-4F * t + 0.0010732567F);
      const FloatLanes second = 0.00691619F * t - 0.010480148F;
      const FloatLanes third = -0.04725447F * t + 0.23001944F;
      const FloatLanes last = -0.50933236F * t + 0.72908366F;
      return (((first * square + second) * square + third) * square + last) / sum;
    } else {
      const FloatLanes upper = -0.012960432F * square + (0.0082207825F * t + 0.13086192F);
      return (upper * square + (-0.43350652F * t + 0.7067067F)) / sum;
    }
  }
};

// x * sigmoid(2u), where u = sqrt(2 / pi) * (x + 0.044715 x^3): 0.5 x (1 + tanh(u)).
template <typename T>
struct GeluTanh {
  FloatLanes operator()(FloatLanes x) const {
    constexpr float kScale = 1.59576912F;  // 2 sqrt(2 / pi)
    constexpr float kCube = 0.044715F * kScale;
    // At the bound the sigmoid is 0 or 1.
    const FloatLanes bounded = Bounded(x, 10.75F);
    const FloatLanes u = bounded * (kScale + kCube * (bounded * bounded));
    return x * Sigmoid<T>(u).value;
  }
};

}  // namespace
}  // namespace acl_host
