// Reads the elements of an input in the order of the result, as elements of one type.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <complex>
#include <cstring>
#include <type_traits>

#include "families/elementwise/computation.h"
#include "plan/scratch.h"
#include "tensors/elements.h"
#include "tensors/rows.h"

namespace acl_host {
namespace {

// Elements that are gathered or converted at a time: the rows of all inputs stay in the first cache.
constexpr int64_t kBlock = 1024;

// Whether operators take elements of type From as numbers of type To.
template <typename From, typename To>
constexpr bool kConvertible =
    kIsComplex<To> ||
    (std::is_integral_v<To> ? std::is_integral_v<From> || std::is_same_v<From, Bool> : !kIsComplex<From>);

template <typename T, typename From>
[[nodiscard]] T Converted(From value) {
  if constexpr (std::is_same_v<From, Bool>) {
    return Converted<T>(value.value != 0 ? uint8_t{1} : uint8_t{0});
  } else if constexpr (kIsComplex<T> && kIsComplex<From>) {
    using Part = typename T::value_type;
    return {static_cast<Part>(value.real()), static_cast<Part>(value.imag())};
  } else if constexpr (kIsComplex<T>) {
    return {static_cast<typename T::value_type>(value), 0};
  } else {
    return static_cast<T>(value);
  }
}

// Whether numbers of other types are converted to T.
template <typename T>
constexpr bool kIsComputed =
    std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, int64_t> || kIsComplex<T>;

// The rows of these functions are parameters, which nothing else in memory can be.
template <typename From, typename T>
void ConvertRow(const std::byte* __restrict from, T* __restrict to, int64_t count) {
  if constexpr (std::is_same_v<Wide<From>, T>) {
    WidenRow<From>(from, to, count);
  } else if constexpr (kConvertible<Wide<From>, T>) {
    for (int64_t i = 0; i < count; ++i) to[i] = Converted<T>(WidenElement<From>(from, i));
  }
}

// Checks let float numbers be written as integers only if they are 0 or 1.
template <typename To, typename T>
void WriteRow(const T* __restrict from, std::byte* __restrict to, int64_t count) {
  if constexpr (std::is_same_v<Wide<To>, T>) {
    RoundRow<To>(from, to, count);
  } else if constexpr (std::is_same_v<To, Bool>) {
    for (int64_t i = 0; i < count; ++i) StoreElement(to, i, Bool{static_cast<uint8_t>(from[i] != T{} ? 1 : 0)});
  } else if constexpr (kIsComplex<To> || !kIsComplex<T>) {
    for (int64_t i = 0; i < count; ++i) RoundElement<To>(to, i, Converted<Wide<To>>(from[i]));
  }
}

// In place, or by way of a block: if the elements lie otherwise than those of the result, or are of another type.
template <typename T>
class Source {
 public:
  // Elements of type T have this data type. Most is how many are read in all.
  Source(const ElementwiseInput& input, const std::byte* elements, aclDataType type, int64_t most)
      : input_(input),
        elements_(elements),
        element_bytes_(static_cast<int64_t>(aclDataTypeSize(input.type))),
        is_converted_(input.type != type),
        in_place_(IsInPlace(input, type)),
        repeats_(!input.is_given || (0 < input.period && input.period <= kBlock)),
        position_(input.dims.size()),
        block_(in_place_  ? 0
               : repeats_ ? std::min(most, kBlock) + input.period
                          : kBlock),
        gathered_(in_place_ || !is_converted_ || input.dims.empty() ? 0 : kBlock * element_bytes_) {
    if (repeats_) Repeat(std::min(most, kBlock) + input.period);
  }

  [[nodiscard]] static bool IsInPlace(const ElementwiseInput& input, aclDataType type) {
    return input.is_given && input.dims.empty() && input.type == type;
  }

  // At most kBlock elements, unless they are read in place. Valid up to the next call.
  [[nodiscard]] const std::byte* Read(int64_t first, int64_t count) {
    if (in_place_) return elements_ + first * element_bytes_;
    if (!input_.is_given) return block_.bytes();
    if (repeats_) return block_.bytes() + first % input_.period * int64_t{sizeof(T)};
    Make(first, count, block_.bytes());
    return block_.bytes();
  }

 private:
  void Repeat(int64_t count) {
    if (!input_.is_given) {
      if constexpr (!std::is_same_v<T, Bool>) {
        for (int64_t i = 0; i < count; ++i) StoreRounded<T>(block_.bytes(), i, Wide<T>(1));
      }
      return;
    }
    for (int64_t first = 0; first < count; first += kBlock) {
      Make(first, std::min(kBlock, count - first), block_.bytes() + first * int64_t{sizeof(T)});
    }
  }

  void Make(int64_t first, int64_t count, std::byte* to) {
    const std::byte* from = elements_ + first * element_bytes_;
    if (!input_.dims.empty()) {
      std::byte* const gathered = is_converted_ ? gathered_.bytes() : to;
      if (first != next_) Seek(first);
      VisitElementSize(input_.type, [&](auto tag) { Gather<typename decltype(tag)::Type>(count, gathered); });
      next_ = first + count;
      from = gathered;
    }
    if (is_converted_) Convert(from, count, to);
  }

  void Seek(int64_t first) {
    offset_ = 0;
    for (size_t axis = position_.size(); axis-- > 0;) {
      position_[axis] = first % input_.dims[axis];
      first /= input_.dims[axis];
      offset_ += position_[axis] * input_.strides[axis];
    }
  }

  // The next elements of the view, and behind its last one the first one again.
  template <typename Element>
  void Gather(int64_t count, std::byte* to) {
    const size_t last = position_.size() - 1;
    const int64_t stride = input_.strides[last];
    while (count > 0) {
      const int64_t length = std::min(input_.dims[last] - position_[last], count);
      GatherRow<Element>(elements_ + offset_ * int64_t{sizeof(Element)}, stride, length, to);
      to += length * int64_t{sizeof(Element)};
      count -= length;
      position_[last] += length;
      offset_ += length * stride;
      for (size_t axis = last; position_[axis] == input_.dims[axis]; --axis) {
        offset_ -= input_.dims[axis] * input_.strides[axis];
        position_[axis] = 0;
        if (axis == 0) break;
        ++position_[axis - 1];
        offset_ += input_.strides[axis - 1];
      }
    }
  }

  template <typename Element>
  static void GatherRow(const std::byte* from, int64_t stride, int64_t count, std::byte* to) {
    if (stride == 1) {
      std::memcpy(to, from, static_cast<size_t>(count) * sizeof(Element));
    } else if (stride == 0) {
      const auto element = LoadElement<Element>(from, 0);
      for (int64_t i = 0; i < count; ++i) StoreElement(to, i, element);
    } else {
      for (int64_t i = 0; i < count; ++i) {
        StoreElement(to, i, LoadElement<Element>(from + i * stride * int64_t{sizeof(Element)}, 0));
      }
    }
  }

  void Convert(const std::byte* from, int64_t count, std::byte* to) const {
    if constexpr (kIsComputed<T>) {
      T* const converted = reinterpret_cast<T*>(to);
      VisitNumberType(input_.type, [&](auto tag) { ConvertRow<typename decltype(tag)::Type>(from, converted, count); });
      if (input_.rounded_to != ACL_DT_UNDEFINED) RoundTo(input_.rounded_to, converted, count);
    }
  }

  static void RoundTo(aclDataType type, T* numbers, int64_t count) {
    if constexpr (std::is_same_v<T, float>) {
      VisitFloatType(type, [&](auto tag) {
        using Rounded = typename decltype(tag)::Type;
        for (int64_t i = 0; i < count; ++i) {
          std::byte rounded[sizeof(Rounded)];
          RoundElement<Rounded>(rounded, 0, numbers[i]);
          numbers[i] = WidenElement<Rounded>(rounded, 0);
        }
      });
    }
  }

  const ElementwiseInput& input_;
  const std::byte* const elements_;
  const int64_t element_bytes_;
  const bool is_converted_;
  const bool in_place_;
  const bool repeats_;
  Dims position_;
  int64_t offset_ = 0;
  int64_t next_ = -1;
  const Scratch<T> block_;
  const Scratch<std::byte> gathered_;
};

}  // namespace
}  // namespace acl_host
