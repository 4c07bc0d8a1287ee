// The two 16-bit floating-point types. To float is exact; from float rounds to nearest, ties to even. Infinities, NaNs
// and subnormals are kept.
#ifndef ACL_HOST_HALF_H_
#define ACL_HOST_HALF_H_

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

// IEEE binary16: 1 sign, 5 exponent and 10 mantissa bits.
struct Float16 {
  uint16_t bits;

  [[nodiscard]] static Float16 FromFloat(float value) {
    constexpr uint32_t kInfinity = 0x7F800000U;
    constexpr uint32_t kTooLarge = 0x47800000U;        // 65536: infinity whatever the rounding
    constexpr uint32_t kSmallestNormal = 0x38800000U;  // 2^-14
    constexpr uint32_t kHalf = 0x3F000000U;            // 0.5, whose last mantissa bit is worth 2^-24
    const uint32_t sign = BitsOf(value) & 0x80000000U;
    const uint32_t magnitude = BitsOf(value) ^ sign;
    uint32_t result;
    if (magnitude > kInfinity) {
      result = 0x7E00U | ((magnitude >> 13) & 0x1FFU);
    } else if (magnitude >= kTooLarge) {
      result = 0x7C00U;
    } else if (magnitude < kSmallestNormal) {
      // Adding 0.5 makes the float unit round at 2^-24, which is the step of the subnormals.
      result = BitsOf(FloatOf(magnitude) + FloatOf(kHalf)) - kHalf;
    } else {
      // A carry out of the mantissa moves into the exponent, which is right, up to infinity.
      const uint32_t round = 0xFFFU + ((magnitude >> 13) & 1U);
      result = (magnitude - (112U << 23) + round) >> 13;
    }
    return {static_cast<uint16_t>((sign >> 16) | result)};
  }

  [[nodiscard]] float ToFloat() const {
    const uint32_t sign = (bits & 0x8000U) << 16;
    const uint32_t magnitude = (bits & 0x7FFFU) << 13;
    const uint32_t exponent = bits & 0x7C00U;
    if (exponent == 0x7C00U) return FloatOf(sign | (magnitude + (224U << 23)));
    if (exponent != 0) return FloatOf(sign | (magnitude + (112U << 23)));
    // 2^-14 plus the subnormal is a normal number; taking 2^-14 off again is exact.
    constexpr uint32_t kSmallestNormal = 113U << 23;
    return FloatOf(sign | BitsOf(FloatOf(magnitude + kSmallestNormal) - FloatOf(kSmallestNormal)));
  }
};

// The upper half of a binary32.
struct BFloat16 {
  uint16_t bits;

  [[nodiscard]] static BFloat16 FromFloat(float value) {
    const uint32_t all = BitsOf(value);
    // Rounding could turn a NaN into infinity; the quiet bit cannot.
    if ((all & 0x7FFFFFFFU) > 0x7F800000U) return {static_cast<uint16_t>((all >> 16) | 0x40U)};
    return {static_cast<uint16_t>((all + 0x7FFFU + ((all >> 16) & 1U)) >> 16)};
  }

  [[nodiscard]] float ToFloat() const { return FloatOf(uint32_t{bits} << 16); }
};

}  // namespace acl_host

#endif  // ACL_HOST_HALF_H_
