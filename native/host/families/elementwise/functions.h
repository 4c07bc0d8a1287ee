// Exponential functions of numbers, and the activations that are made of them.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <cmath>

#include "families/elementwise/maths.h"

namespace acl_host {
namespace {

struct Exponential {
  FloatLanes operator()(FloatLanes x) const { return Exp(x); }
  double operator()(double x) const { return std::exp(x); }
};

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
    // The mantissa is between the square roots of 1/2 and of 2.
    const FloatLanes f = mantissa - 1.0F;
    const FloatLanes s = f / (2.0F + f);
    const FloatLanes square = s * s;
    // 2 artanh(s) is the logarithm of 1 + f: f - f^2/2 + s (f^2/2 + what is left of the series).
    const FloatLanes rest = ((0.2987121F * square + 0.39977565F) * square + 0.66666776F) * square;
    const FloatLanes half_square = 0.5F * f * f;
    const FloatLanes low = s * (half_square + rest) + exponent * 9.05800061e-6F;
    const FloatLanes number = exponent * 0.693138123F - ((half_square - low) - f);
    const FloatLanes positive = x == HUGE_VALF ? x : number;
    const FloatLanes not_negative = x == 0.0F ? Filled(-HUGE_VALF) : positive;
    const FloatLanes any = x < 0.0F ? Filled(NAN) : not_negative;
    return x != x ? x : any;
  }
  double operator()(double x) const { return std::log(x); }
};

struct SigmoidOf {
  FloatLanes operator()(FloatLanes x) const { return Sigmoid<float>(x).value; }
  double operator()(double x) const {
    const double tail = std::exp(-std::abs(x));
    return (x < 0 ? tail : 1) / (1 + tail);
  }
};

struct Silu {
  FloatLanes operator()(FloatLanes x) const { return x * Sigmoid<float>(x).value; }
};

struct Tanh {
  FloatLanes operator()(FloatLanes x) const {
    const FloatLanes size = Size(x);
    // Next to 0 the difference below would cancel.
    const FloatLanes square = size * size;
    const FloatLanes upper = (-0.005666942F * square + 0.02060615F) * square - 0.05373F;
    const FloatLanes fit = (upper * square + 0.13331331F) * square - 0.33333278F;
    const FloatLanes small = size + size * square * fit;
    const FloatLanes large = 1.0F - 2.0F / (ExpWithin(AtMost(size + size, 40.0F)) + 1.0F);
    return WithSign(size < 0.625F ? small : large, x);
  }
  double operator()(double x) const { return std::tanh(x); }
};

// x * Phi(x), with the distribution function Phi of normal numbers.
struct Gelu {
  FloatLanes operator()(FloatLanes x) const {
    const FloatLanes size = AtMost(Size(x), 18.0F);
    // exp(-x^2 / 2) of two parts of the square, of which the first is exact.
    const auto head = BitCast<FloatLanes>(WordLanes{BitCast<WordLanes>(size) & 0xFFFFF000U});
    const FloatLanes low = (size - head) * (size + head) * -0.5F;
    const FloatLanes decay = ExpWithin(head * head * -0.5F) * (1.0F + low + 0.5F * low * low);
    // (1 - Phi(x)) / exp(-x^2 / 2): the smallest errors of its product with x + 3.
    const FloatLanes sum = size + 3.0F;
    const FloatLanes t = (size - 3.0F) / sum;
    const FloatLanes square = t * t;
    const FloatLanes first = -2.5933757e-4F * square + (-8.9256006e-4F * t + 0.0010732567F);
    const FloatLanes second = 0.00691619F * t - 0.010480148F;
    const FloatLanes third = -0.04725447F * t + 0.23001944F;
    const FloatLanes last = -0.50933236F * t + 0.72908366F;
    const FloatLanes tail = (((first * square + second) * square + third) * square + last) / sum * decay;
    return x * (x < 0.0F ? tail : 1.0F - tail);
  }
};

// x * sigmoid(2u), where u = sqrt(2 / pi) * (x + 0.044715 x^3): 0.5 x (1 + tanh(u)).
struct GeluTanh {
  FloatLanes operator()(FloatLanes x) const {
    constexpr float kScale = 1.59576912F;  // 2 sqrt(2 / pi)
    constexpr float kCube = 0.044715F * kScale;
    // At the bound the sigmoid is 0 or 1.
    const FloatLanes bounded = Bounded(x, 10.75F);
    const FloatLanes u = bounded * (kScale + kCube * (bounded * bounded));
    return x * Sigmoid<float>(u).value;
  }
};

}  // namespace
}  // namespace acl_host
