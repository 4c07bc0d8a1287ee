// Elements of any floating-point type as float32 and back. In an unnamed namespace, because each vector level has its
// own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "plan/plan.h"
#include "plan/scratch.h"
#include "tensors/elements.h"
#include "tensors/rows.h"

namespace acl_host {

// A tensor of the launch, by its place among the inputs or the outputs.
struct FloatOperand {
  size_t index;
  aclDataType type;
};

namespace {

constexpr int64_t kFloatBytes = sizeof(float);

inline float FloatAt(const std::byte* row, int64_t index) { return LoadElement<float>(row, index); }

// Reads elements of any type as float32: in place, or by way of a widened copy. An operand that is not given is ones.
class Floats {
 public:
  // At most `most` elements at a time.
  Floats(const Launch& launch, const std::optional<FloatOperand>& operand, int64_t most)
      : elements_(operand ? launch.inputs[operand->index] : nullptr),
        type_(operand ? operand->type : ACL_FLOAT),
        copy_(operand && type_ == ACL_FLOAT ? 0 : most) {
    if (!operand) std::fill_n(copy_.data(), most, 1.0F);
  }

  // The result is valid up to the next call.
  [[nodiscard]] const std::byte* Read(int64_t first, int64_t count) const {
    if (elements_ != nullptr && type_ == ACL_FLOAT) return elements_ + first * kFloatBytes;
    if (elements_ != nullptr) Widen(first, count);
    return reinterpret_cast<const std::byte*>(copy_.data());
  }

 private:
  void Widen(int64_t first, int64_t count) const {
    VisitFloatType(type_, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      WidenRow<T>(elements_ + first * int64_t{sizeof(T)}, copy_.data(), count);
    });
  }

  const std::byte* const elements_;
  const aclDataType type_;
  const Scratch<float> copy_;
};

inline void Round(const float* from, const Launch& launch, const FloatOperand& operand, int64_t first, int64_t count) {
  VisitFloatType(operand.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    RoundRow<T>(from, launch.outputs[operand.index] + first * int64_t{sizeof(T)}, count);
  });
}

// Writes float32 as elements of any type: in place, or by way of a copy that is rounded.
class RoundedFloats {
 public:
  RoundedFloats(const Launch& launch, const FloatOperand& operand, int64_t most)
      : launch_(launch), operand_(operand), copy_(operand.type == ACL_FLOAT ? 0 : most) {}

  // Calls make(to), which writes the elements.
  template <typename Make>
  void Write(int64_t first, int64_t count, const Make& make) const {
    if (operand_.type == ACL_FLOAT) return make(launch_.outputs[operand_.index] + first * kFloatBytes);
    make(reinterpret_cast<std::byte*>(copy_.data()));
    Round(copy_.data(), launch_, operand_, first, count);
  }

 private:
  const Launch& launch_;
  const FloatOperand operand_;
  const Scratch<float> copy_;
};

// Adds up term(0) to term(count - 1), in an order that depends on the count alone.
template <typename Term>
[[nodiscard]] float SumAlong(int64_t count, const Term& term) {
  constexpr int64_t kLanes = 32;
  float sum = 0;
  int64_t i = 0;
  if (count >= kLanes) {
    float lanes[kLanes] = {};
    for (; i + kLanes <= count; i += kLanes) {
      for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
    }
    for (int64_t half = kLanes / 2; half > 0; half /= 2) {
      for (int64_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    }
    sum = lanes[0];
  }
  for (; i < count; ++i) sum += term(i);
  return sum;
}

}  // namespace
}  // namespace acl_host
