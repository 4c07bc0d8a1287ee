// Powers of numbers, with the results of the C function pow. The sizes of float32 are computed in double, whose digits
// the product of a logarithm and an exponent needs.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "families/elementwise/arithmetic.h"

namespace acl_host {
namespace {

// Half as many numbers as FloatLanes.
constexpr int64_t kDoubleLanes = kFloatLanes / 2;
typedef double DoubleLanes __attribute__((vector_size(8 * kDoubleLanes)));
typedef uint64_t LongWordLanes __attribute__((vector_size(8 * kDoubleLanes)));
typedef float FewFloatLanes __attribute__((vector_size(4 * kDoubleLanes)));

// Added to an integer, they have its bits last: of a signed number, and of one that is not negative.
constexpr double kIntegerShift = 6755399441055744.0;
constexpr double kNaturalShift = 4503599627370496.0;
constexpr uint64_t kNaturalBits = 0x4330000000000000U;

// Of positive normal numbers. Its relative error is below 2^-28.
inline DoubleLanes Log2(DoubleLanes x) {
  // From the bits of sqrt(1/2) on, so that the mantissa is between the square roots of 1/2 and of 2.
  constexpr uint64_t kRoot = 0x3FE6A09E667F3BCDU;
  const auto bits = BitCast<LongWordLanes>(x);
  const LongWordLanes steps = (bits - kRoot + (uint64_t{1} << 62)) >> 52;  // the exponent + 1024
  const auto mantissa = BitCast<DoubleLanes>(LongWordLanes{bits - ((steps - 1024U) << 52)});
  const DoubleLanes exponent = BitCast<DoubleLanes>(LongWordLanes{steps | kNaturalBits}) - (kNaturalShift + 1024.0);
  const DoubleLanes s = (mantissa - 1.0) / (mantissa + 1.0);
  const DoubleLanes square = s * s;
  // The series of 2 artanh(s), in logarithms to the base 2.
  const DoubleLanes upper = square * (1.0 / 9.0) + 1.0 / 7.0;
  const DoubleLanes sum = ((upper * square + 1.0 / 5.0) * square + 1.0 / 3.0) * square + 1.0;
  return exponent + sum * s * 2.8853900817779268;
}

// Of numbers from -1000 to 1000. Its relative error is below 2^-27.
inline DoubleLanes Exp2(DoubleLanes x) {
  const DoubleLanes shifted = x + kIntegerShift;
  const DoubleLanes r = x - (shifted - kIntegerShift);
  const DoubleLanes fourth = (r * 1.5252733804059841e-5 + 1.5403530393381610e-4) * r + 1.3333558146428443e-3;
  const DoubleLanes second = (fourth * r + 9.6181291076284772e-3) * r + 5.5504108664821580e-2;
  const DoubleLanes power = ((second * r + 0.24022650695910072) * r + 0.69314718055994531) * r + 1.0;
  return BitCast<DoubleLanes>(LongWordLanes{BitCast<LongWordLanes>(power) + (BitCast<LongWordLanes>(shifted) << 52)});
}

// |x|^exponent, also of 0 and of infinity. It is 1 where x is 1.
inline FewFloatLanes PowerOfSize(FewFloatLanes x, double exponent) {
  const auto wide = __builtin_convertvector(x, DoubleLanes);
  const auto size = BitCast<DoubleLanes>(LongWordLanes{BitCast<LongWordLanes>(wide) & 0x7FFFFFFFFFFFFFFFU});
  // Beyond these bounds float32 has 0 and infinity. Zeros and infinities have logarithms like their neighbours, and
  // exponents of any size make NaN out of neither.
  const DoubleLanes product = Log2(size) * exponent;
  const DoubleLanes bounded = product < -300.0 ? DoubleLanes{} - 300.0 : product;
  const DoubleLanes power = Exp2(bounded > 300.0 ? DoubleLanes{} + 300.0 : bounded);
  const double of_zero = exponent > 0 ? 0.0 : HUGE_VAL;
  const double of_infinity = exponent > 0 ? HUGE_VAL : 0.0;
  const DoubleLanes above = size == 0.0 ? DoubleLanes{} + of_zero : power;
  const DoubleLanes below = size == HUGE_VAL ? DoubleLanes{} + of_infinity : above;
  return __builtin_convertvector(size != size ? size : below, FewFloatLanes);
}

struct Power {
  FloatLanes operator()(FloatLanes x) const {
    // PyTorch rounds the exponent to the type of the bases, too.
    const double power = static_cast<double>(static_cast<float>(exponent.real));
    if (power == 0) return Filled(1.0F);
    FloatLanes result;
    if (!std::isfinite(power)) {
      for (int64_t i = 0; i < kFloatLanes; ++i) result[i] = std::pow(x[i], static_cast<float>(power));
      return result;
    }
    FewFloatLanes halves[2];
    std::memcpy(halves, &x, sizeof(x));
    for (FewFloatLanes& half : halves) half = PowerOfSize(half, power);
    std::memcpy(&result, halves, sizeof(result));
    // Powers of negative numbers: those of odd integers are negative, and only integers have some.
    const double half = power / 2;
    const bool is_integer = std::trunc(power) == power;
    if (is_integer && std::trunc(half) != half) return WithSign(result, x);
    if (is_integer) return result;
    const FloatLanes with_nan = x < 0.0F ? Filled(NAN) : result;
    return x == -HUGE_VALF ? result : with_nan;
  }
  double operator()(double x) const { return std::pow(x, exponent.real); }
  int64_t operator()(int64_t x) const {
    int64_t result = 1;
    for (int64_t left = exponent.integer; left > 0; left >>= 1) {
      if (left & 1) result = Product(result, x);
      x = Product(x, x);
    }
    return result;
  }

  Number exponent;
};

struct Square {
  template <typename T>
  T operator()(T x) const {
    return Product(x, x);
  }
};

struct Cube {
  template <typename T>
  T operator()(T x) const {
    return Product(Product(x, x), x);
  }
};

struct Reciprocal {
  template <typename T, typename = IfReal<T>>
  T operator()(T x) const {
    return As<T>(1) / x;
  }
};

struct ReciprocalSquare {
  template <typename T, typename = IfReal<T>>
  T operator()(T x) const {
    const T reciprocal = As<T>(1) / x;
    return reciprocal * reciprocal;
  }
};

inline FloatLanes RootOf(FloatLanes x) { return SquareRoot(x); }
inline double RootOf(double x) { return std::sqrt(x); }

struct Sqrt {
  template <typename T, typename = IfReal<T>>
  T operator()(T x) const {
    return RootOf(x);
  }
};

struct Rsqrt {
  template <typename T, typename = IfReal<T>>
  T operator()(T x) const {
    return As<T>(1) / RootOf(x);
  }
};

}  // namespace
}  // namespace acl_host
