// Elements of any floating-point type as float32 and back. In an unnamed namespace, because each vector level has its
// own.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

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

// Reads elements of any type as float32: in place, or by way of a widened copy. An operand that is not given is ones,
// or another number.
class Floats {
 public:
  // At most `most` elements at a time.
  Floats(const KernelArguments& arguments, const std::optional<FloatOperand>& operand, int64_t most,
         float absent = 1.0F)
      : elements_(operand ? arguments.inputs[operand->index] : nullptr),
        type_(operand ? operand->type : ACL_FLOAT),
        copy_(operand && type_ == ACL_FLOAT ? 0 : most) {
    if (!operand) std::fill_n(copy_.data(), most, absent);
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

// Adds up several numbers of each element of one or more runs, in an order that depends on their lengths alone: as many
// sums side by side, and at the end these by halves.
template <size_t kNumbers>
class SumsOfRuns {
 public:
  // terms(i, lanes) has an array of the numbers of the elements from i on.
  template <typename Terms>
  void Add(int64_t count, const Terms& terms) {
    // A copy that nothing else points to stays in registers.
    auto sums = sums_;
    int64_t begin = 0;
    for (; begin + kSumsAlong <= count; begin += kSumsAlong) {
      ForPlaces(Places{}, [&](auto place) { AddTo(sums, place, terms(begin + place * kFloatLanes, AllLanes{})); });
    }
    ForPlaces(Places{}, [&](auto place) {
      const int64_t first = begin + place * kFloatLanes;
      if (first + kFloatLanes <= count) {
        AddTo(sums, place, terms(first, AllLanes{}));
      } else if (first < count) {
        AddTo(sums, place, terms(first, count - first), count - first);
      }
    });
    sums_ = sums;
  }

  [[nodiscard]] std::array<float, kNumbers> Total() const {
    std::array<float, kNumbers> all;
    for (size_t number = 0; number < kNumbers; ++number) {
      auto sums = sums_[number];
      for (size_t half = sums.size() / 2; half > 0; half /= 2) {
        for (size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
      }
      all[number] = SumOfLanes(sums[0]);
    }
    return all;
  }

 private:
  using Places = std::make_integer_sequence<int64_t, kSumsAlong / kFloatLanes>;
  using SideBySide = std::array<std::array<FloatLanes, Places::size()>, kNumbers>;

  // Without a loop, so that the sums stay in registers.
  template <int64_t... kPlaces, typename Visit>
  static void ForPlaces(std::integer_sequence<int64_t, kPlaces...>, const Visit& visit) {
    (visit(std::integral_constant<int64_t, kPlaces>{}), ...);
  }

  template <typename Count = AllLanes>
  static void AddTo(SideBySide& sums, int64_t place, const std::array<FloatLanes, kNumbers>& added, Count lanes = {}) {
    for (size_t number = 0; number < kNumbers; ++number) {
      sums[number][static_cast<size_t>(place)] += FirstLanes(added[number], lanes);
    }
  }

  SideBySide sums_ = {};
};

// The same of a row of up to kRowPart elements.
template <size_t kNumbers, typename Terms>
[[nodiscard]] std::array<float, kNumbers> SumsAlong(int64_t count, const Terms& terms) {
  SumsOfRuns<kNumbers> sums;
  sums.Add(count, terms);
  return sums.Total();
}

}  // namespace
}  // namespace acl_host
