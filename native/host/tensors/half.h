// The two 16-bit floating-point types. To float is exact; from float rounds to nearest, ties to even. Infinities, NaNs
// and subnormals are kept.
//
// The formulas are of the bits of one float32 or of a vector of them: of Words and Floats, which are uint32_t and float
// or vectors of these. They have no branches: they compute the result for every range of values, and then select one.
#pragma once

#include <cstdint>
#include <cstring>

namespace acl_host {

template <typename To, typename From>
[[nodiscard]] inline To BitCast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

// The bits of the nearest binary16: 1 sign, 5 exponent and 10 mantissa bits.
template <typename Floats, typename Words>
[[nodiscard]] inline Words RoundToFloat16(Floats value) {
  constexpr uint32_t kInfinity = 0x7F800000U;
  constexpr uint32_t kTooLarge = 0x47800000U;        // 65536: infinity after any rounding
  constexpr uint32_t kSmallestNormal = 0x38800000U;  // 2^-14
  constexpr uint32_t kHalf = 0x3F000000U;            // 0.5, whose last mantissa bit is worth 2^-24
  const Words sign = BitCast<Words>(value) & 0x80000000U;
  const Words magnitude = BitCast<Words>(value) ^ sign;
  // A carry out of the mantissa increases the exponent, which is correct up to infinity.
  const Words normal = (magnitude - (112U << 23) + 0xFFFU + ((magnitude >> 13) & 1U)) >> 13;
  // Adding 0.5 makes the float unit round at 2^-24, which is the step of the subnormals.
  const Words subnormal = BitCast<Words>(BitCast<Floats>(magnitude) + 0.5F) - kHalf;
  const Words nan = 0x7E00U | ((magnitude >> 13) & 0x1FFU);
  const Words finite = magnitude < kSmallestNormal ? subnormal : normal;
  const Words number = magnitude >= kTooLarge ? Words{} + 0x7C00U : finite;
  return (sign >> 16) | (magnitude > kInfinity ? nan : number);
}

// The value of the lower 16 bits.
template <typename Floats, typename Words>
[[nodiscard]] inline Floats WidenFloat16(Words bits) {
  constexpr uint32_t kSmallestNormal = 113U << 23;  // 2^-14
  const Words sign = (bits & 0x8000U) << 16;
  const Words magnitude = (bits & 0x7FFFU) << 13;
  const Words exponent = bits & 0x7C00U;
  // 2^-14 plus the subnormal is a normal number; subtracting 2^-14 is exact.
  const Floats least = BitCast<Floats>(Words{} + kSmallestNormal);
  const Words subnormal = BitCast<Words>(BitCast<Floats>(Words{magnitude + kSmallestNormal}) - least);
  const Words normal = magnitude + (exponent == 0x7C00U ? Words{} + (224U << 23) : Words{} + (112U << 23));
  return BitCast<Floats>(Words{sign | (exponent == 0U ? subnormal : normal)});
}

// The bits of the nearest bfloat16, which is the upper half of a binary32.
template <typename Floats, typename Words>
[[nodiscard]] inline Words RoundToBFloat16(Floats value) {
  const Words bits = BitCast<Words>(value);
  const Words rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  // Rounding could turn a NaN into infinity; the quiet bit cannot.
  const Words nan = (bits >> 16) | 0x40U;
  return value != value ? nan : rounded;
}

template <typename Floats, typename Words>
[[nodiscard]] inline Floats WidenBFloat16(Words bits) {
  return BitCast<Floats>(Words{bits << 16});
}

struct Float16 {
  uint16_t bits;

  [[nodiscard]] static Float16 FromFloat(float value) {
    return {static_cast<uint16_t>(RoundToFloat16<float, uint32_t>(value))};
  }
  [[nodiscard]] float ToFloat() const { return WidenFloat16<float, uint32_t>(bits); }
};

struct BFloat16 {
  uint16_t bits;

  [[nodiscard]] static BFloat16 FromFloat(float value) {
    return {static_cast<uint16_t>(RoundToBFloat16<float, uint32_t>(value))};
  }
  [[nodiscard]] float ToFloat() const { return WidenBFloat16<float, uint32_t>(bits); }
};

}  // namespace acl_host
