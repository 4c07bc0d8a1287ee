// The two 16-bit floating-point types. To float is exact; from float rounds to nearest, ties to even. Infinities, NaNs
// and subnormals are kept.
#pragma once

#include <cstdint>
#include <cstring>

namespace acl_host {

[[nodiscard]] inline uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

[[nodiscard]] inline float FloatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// IEEE binary16: 1 sign, 5 exponent and 10 mantissa bits. Without branches, so that the compiler vectorises loops: it
// computes the result for every range of values, and then selects one.
struct Float16 {
  uint16_t bits;

  [[nodiscard]] static Float16 FromFloat(float value) {
    constexpr uint32_t kInfinity = 0x7F800000U;
    constexpr uint32_t kTooLarge = 0x47800000U;        // 65536: infinity after any rounding
    constexpr uint32_t kSmallestNormal = 0x38800000U;  // 2^-14
    constexpr uint32_t kHalf = 0x3F000000U;            // 0.5, whose last mantissa bit is worth 2^-24
    const uint32_t sign = BitsOf(value) & 0x80000000U;
    const uint32_t magnitude = BitsOf(value) ^ sign;
    // A carry out of the mantissa increases the exponent, which is correct up to infinity.
    const uint32_t normal = (magnitude - (112U << 23) + 0xFFFU + ((magnitude >> 13) & 1U)) >> 13;
    // Adding 0.5 makes the float unit round at 2^-24, which is the step of the subnormals.
    const uint32_t subnormal = BitsOf(FloatOf(magnitude) + FloatOf(kHalf)) - kHalf;
    const uint32_t nan = 0x7E00U | ((magnitude >> 13) & 0x1FFU);
    uint32_t result = magnitude < kSmallestNormal ? subnormal : normal;
    result = magnitude >= kTooLarge ? 0x7C00U : result;
    result = magnitude > kInfinity ? nan : result;
    return {static_cast<uint16_t>((sign >> 16) | result)};
  }

  [[nodiscard]] float ToFloat() const {
    constexpr uint32_t kSmallestNormal = 113U << 23;
    const uint32_t sign = (bits & 0x8000U) << 16;
    const uint32_t magnitude = (bits & 0x7FFFU) << 13;
    const uint32_t exponent = bits & 0x7C00U;
    // 2^-14 plus the subnormal is a normal number; subtracting 2^-14 is exact.
    const uint32_t subnormal = BitsOf(FloatOf(magnitude + kSmallestNormal) - FloatOf(kSmallestNormal));
    const uint32_t normal = magnitude + (exponent == 0x7C00U ? 224U << 23 : 112U << 23);
    return FloatOf(sign | (exponent == 0 ? subnormal : normal));
  }
};

// The upper half of a binary32.
struct BFloat16 {
  uint16_t bits;

  [[nodiscard]] static BFloat16 FromFloat(float value) {
    const uint32_t all = BitsOf(value);
    const uint32_t rounded = (all + 0x7FFFU + ((all >> 16) & 1U)) >> 16;
    // Rounding could turn a NaN into infinity; the quiet bit cannot.
    const uint32_t nan = (all >> 16) | 0x40U;
    return {static_cast<uint16_t>((all & 0x7FFFFFFFU) > 0x7F800000U ? nan : rounded)};
  }

  [[nodiscard]] float ToFloat() const { return FloatOf(uint32_t{bits} << 16); }
};

}  // namespace acl_host
