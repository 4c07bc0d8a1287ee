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
#include "tensors/sums.h"

namespace acl_host {

// A tensor of the launch, by its place among the inputs or the outputs.
struct FloatOperand {
  size_t index;
  aclDataType type;
};

// The elements of a row are added up in parts, see SumsAlong: as many sums side by side, each of a part's elements.
inline constexpr int64_t kSumsAlong = 32;
inline constexpr int64_t kRowPart = 8192;
static_assert(kRowPart / kSumsAlong <= kMostFloatAdditions);

namespace {

constexpr int64_t kFloatBytes = sizeof(float);

inline float FloatAt(const std::byte* row, int64_t index) { return LoadElement<float>(row, index); }

// Reads elements of any type as float32: in place, or by way of a widened copy. An operand that is not given is ones.
class Floats {
 public:
  // At most `most` elements at a time.
  Floats(const KernelArguments& arguments, const std::optional<FloatOperand>& operand, int64_t most)
      : elements_(operand ? arguments.inputs[operand->index] : nullptr),
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

template <typename Sum>
void Round(const Sum* from, const KernelArguments& arguments, const FloatOperand& operand, int64_t first,
           int64_t count) {
  VisitFloatType(operand.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    RoundRow<T>(from, arguments.outputs[operand.index] + first * int64_t{sizeof(T)}, count);
  });
}

// Writes float32 as elements of any type: in place, or by way of a copy that is rounded.
class RoundedFloats {
 public:
  RoundedFloats(const KernelArguments& arguments, const FloatOperand& operand, int64_t most)
      : arguments_(arguments), operand_(operand), copy_(operand.type == ACL_FLOAT ? 0 : most) {}

  // Calls make(to), which writes the elements.
  template <typename Make>
  void Write(int64_t first, int64_t count, const Make& make) const {
    if (operand_.type == ACL_FLOAT) return make(arguments_.outputs[operand_.index] + first * kFloatBytes);
    make(reinterpret_cast<std::byte*>(copy_.data()));
    Round(copy_.data(), arguments_, operand_, first, count);
  }

 private:
  const KernelArguments& arguments_;
  const FloatOperand operand_;
  const Scratch<float> copy_;
};

// Adds up several numbers of each element of a row of up to kRowPart elements, in an order that depends on the count
// alone: terms(i, lanes) has an array of those from i on.
template <size_t kNumbers, typename Terms>
[[nodiscard]] std::array<float, kNumbers> SumsAlong(int64_t count, const Terms& terms) {
  FloatLanes sums[kNumbers][kSumsAlong / kFloatLanes] = {};
  const auto add = [&](int64_t place, const std::array<FloatLanes, kNumbers>& added) {
    for (size_t number = 0; number < kNumbers; ++number) sums[number][place / kFloatLanes] += added[number];
  };
  int64_t begin = 0;
  for (; begin + kSumsAlong <= count; begin += kSumsAlong) {
    for (int64_t i = 0; i < kSumsAlong; i += kFloatLanes) add(i, terms(begin + i, AllLanes{}));
  }
  for (int64_t i = 0; i < kSumsAlong; i += kFloatLanes) {
    const int64_t left = count - begin - i;
    if (left >= kFloatLanes) {
      add(i, terms(begin + i, AllLanes{}));
    } else if (left > 0) {
      add(i, terms(begin + i, left));
    }
  }
  std::array<float, kNumbers> all;
  for (size_t number = 0; number < kNumbers; ++number) {
    for (int64_t half = kSumsAlong / kFloatLanes / 2; half > 0; half /= 2) {
      for (int64_t i = 0; i < half; ++i) sums[number][i] += sums[number][i + half];
    }
    float each[kFloatLanes];
    std::memcpy(each, sums[number], sizeof(each));
    for (int64_t half = kFloatLanes / 2; half > 0; half /= 2) {
      for (int64_t i = 0; i < half; ++i) each[i] += each[i + half];
    }
    all[number] = each[0];
  }
  return all;
}

}  // namespace
}  // namespace acl_host
