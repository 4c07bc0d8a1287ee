// Elements of any floating-point type as float32 and back. In an unnamed namespace, because each vector level has its
// own.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "plan/plan.h"
#include "plan/scratch.h"
#include "tensors/elements.h"
#include "tensors/lanes.h"
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

// Adds up the elements of a row, in an order that depends on the count alone: term(i, lanes) has those from i on.
template <typename Term>
[[nodiscard]] float SumAlong(int64_t count, const Term& term) {
  constexpr int64_t kSums = 32;
  FloatLanes registers[kSums / kFloatLanes] = {};
  int64_t begin = 0;
  for (; begin + kSums <= count; begin += kSums) {
    for (int64_t i = 0; i < kSums; i += kFloatLanes) registers[i / kFloatLanes] += term(begin + i, AllLanes{});
  }
  std::array<std::byte, sizeof(registers)> sums;
  std::memcpy(sums.data(), registers, sizeof(registers));
  ForLanes(count - begin, [&](int64_t i, auto lanes) {
    StoreLanes<float>(LoadLanes<float>(sums.data(), i, AllLanes{}) + term(begin + i, lanes), sums.data(), i,
                      AllLanes{});
  });
  float each[kSums];
  std::memcpy(each, sums.data(), sizeof(each));
  for (int64_t half = kSums / 2; half > 0; half /= 2) {
    if (half >= count) continue;  // the rest is zeros
    for (int64_t i = 0; i < half; ++i) each[i] += each[i + half];
  }
  return each[0];
}

}  // namespace
}  // namespace acl_host
