#include "families/movement/computation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <limits>
#include <type_traits>

#include "tensors/elements.h"
#include "tensors/lanes.h"

namespace acl_host {
namespace {

// Elements at a time, which pass through the widest type of their kind: a loop for each pair of types would be four
// times the code.
constexpr int64_t kBlock = 512;

// The widest type of the same kind.
template <typename T>
using Widest =
    std::conditional_t<kIsComplex<T>, std::complex<double>,
                       std::conditional_t<std::is_integral_v<T> || std::is_same_v<T, Bool>, int64_t, double>>;

template <typename T>
Widest<T> Load(const std::byte* source, int64_t index) {
  if constexpr (std::is_same_v<T, Bool>) {
    return LoadElement<Bool>(source, index).value;
  } else if constexpr (kIsComplex<T>) {
    const T value = LoadElement<T>(source, index);
    return {value.real(), value.imag()};
  } else {
    return static_cast<Widest<T>>(LoadWide<T>(source, index));
  }
}

template <typename Integer>
Integer Saturated(double value) {
  using Limits = std::numeric_limits<Integer>;
  if (std::isnan(value)) return 0;
  // The largest int64 is no double, but the number after it is.
  if (value >= std::ldexp(1.0, Limits::digits)) return Limits::max();
  if (value < static_cast<double>(Limits::min())) return Limits::min();
  return static_cast<Integer>(value);
}

template <typename T, typename From>
void Store(std::byte* target, int64_t index, From value) {
  if constexpr (std::is_same_v<T, Bool>) {
    StoreElement(target, index, Bool{static_cast<uint8_t>(value != From{0})});
  } else if constexpr (kIsComplex<T>) {
    using Part = typename T::value_type;
    if constexpr (kIsComplex<From>) {
      StoreElement(target, index, T(static_cast<Part>(value.real()), static_cast<Part>(value.imag())));
    } else {
      StoreElement(target, index, T(static_cast<Part>(value)));
    }
  } else if constexpr (kIsComplex<From>) {
    Store<T>(target, index, value.real());
  } else if constexpr (std::is_integral_v<T> && std::is_same_v<From, double>) {
    StoreElement(target, index, Saturated<T>(value));
  } else if constexpr (std::is_integral_v<T>) {
    StoreElement(target, index, static_cast<T>(value));
  } else {
    StoreRounded<T>(target, index, static_cast<Wide<T>>(value));
  }
}

// Elements of a row, `step` elements apart.
template <typename Bytes>
struct Strip {
  Bytes* first;
  int64_t step;
};

template <typename From>
void StoreBlock(aclDataType to, const Strip<std::byte>& target, const From* block, int64_t count) {
  VisitNumberType(to, [&](auto tag) {
    using To = typename decltype(tag)::Type;
    if (target.step == 1) {
      for (int64_t i = 0; i < count; ++i) Store<To>(target.first, i, block[i]);
    } else {
      for (int64_t i = 0; i < count; ++i) Store<To>(target.first, i * target.step, block[i]);
    }
  });
}

// At most kBlock elements.
void ConvertBlock(aclDataType from, const Strip<const std::byte>& source, aclDataType to,
                  const Strip<std::byte>& target, int64_t count) {
  VisitNumberType(from, [&](auto tag) {
    using From = typename decltype(tag)::Type;
    std::array<Widest<From>, kBlock> block;
    for (int64_t i = 0; i < count; ++i) block[static_cast<size_t>(i)] = Load<From>(source.first, i * source.step);
    StoreBlock(to, target, block.data(), count);
  });
}

bool IsFloat(aclDataType type) { return type == ACL_FLOAT || type == ACL_FLOAT16 || type == ACL_BF16; }

// Between floats of up to 32 bits, of which the widest hold all others.
void ConvertFloats(const Conversion& conversion, const std::byte* from, std::byte* to, int64_t count) {
  VisitFloatType(conversion.from, [&](auto from_tag) {
    VisitFloatType(conversion.to, [&](auto to_tag) {
      using From = typename decltype(from_tag)::Type;
      using To = typename decltype(to_tag)::Type;
      ForLanes(count, [&](int64_t i, auto lanes) { StoreLanes<To>(LoadLanes<From>(from, i, lanes), to, i, lanes); });
    });
  });
}

}  // namespace

template <>
void ConvertElements<VECTOR_LEVEL>::Run(const Conversion& conversion, const std::byte* from, std::byte* to,
                                        int64_t begin, int64_t end) {
  const int64_t from_step = conversion.walk.row().steps[0];
  const int64_t to_step = conversion.walk.row().steps[1];
  const auto from_bytes = static_cast<int64_t>(aclDataTypeSize(conversion.from));
  const auto to_bytes = static_cast<int64_t>(aclDataTypeSize(conversion.to));
  const bool is_direct = conversion.via == conversion.from || conversion.via == conversion.to;
  const bool is_of_lanes =
      is_direct && from_step == 1 && to_step == 1 && IsFloat(conversion.from) && IsFloat(conversion.to);
  conversion.walk.ForUnits(begin, end, [&](const auto& places, int64_t count) {
    const std::byte* const read = from + places[0] * from_bytes;
    std::byte* const written = to + places[1] * to_bytes;
    if (is_of_lanes) return ConvertFloats(conversion, read, written, count);
    for (int64_t first = 0; first < count; first += kBlock) {
      const int64_t size = std::min(kBlock, count - first);
      const Strip<const std::byte> part{read + first * from_step * from_bytes, from_step};
      const Strip<std::byte> made{written + first * to_step * to_bytes, to_step};
      if (is_direct) {
        ConvertBlock(conversion.from, part, conversion.to, made, size);
      } else {
        std::array<std::complex<double>, kBlock> passed;
        auto* const memory = reinterpret_cast<std::byte*>(passed.data());
        ConvertBlock(conversion.from, part, conversion.via, {memory, 1}, size);
        ConvertBlock(conversion.via, {memory, 1}, conversion.to, made, size);
      }
    }
  });
}

}  // namespace acl_host
