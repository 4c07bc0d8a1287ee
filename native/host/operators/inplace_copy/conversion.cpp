#include "conversion.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <limits>
#include <type_traits>

#include "tensors/elements.h"

namespace acl_host {
namespace {

// Elements at a time, which pass through the widest type of their kind: a loop for each pair of types would be four
// times the code.
constexpr int64_t kBlock = 512;

struct Bool {
  uint8_t value;
};

template <typename Visitor>
void VisitAnyType(aclDataType type, Visitor&& visit) {
  switch (type) {
    case ACL_INT8:
      return visit(TypeTag<int8_t>{});
    case ACL_INT16:
      return visit(TypeTag<int16_t>{});
    case ACL_INT32:
      return visit(TypeTag<int32_t>{});
    case ACL_INT64:
      return visit(TypeTag<int64_t>{});
    case ACL_UINT8:
      return visit(TypeTag<uint8_t>{});
    case ACL_BOOL:
      return visit(TypeTag<Bool>{});
    default:
      return VisitFloatOrComplexType(type, std::forward<Visitor>(visit));
  }
}

template <typename T>
constexpr bool kIsComplex = std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;

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

template <typename From>
void StoreBlock(aclDataType to, std::byte* target, int64_t first, const From* block, int64_t size) {
  VisitAnyType(to, [&](auto tag) {
    for (int64_t i = 0; i < size; ++i) Store<typename decltype(tag)::Type>(target, first + i, block[i]);
  });
}

}  // namespace

void Convert(ThreadPool& pool, int64_t count, aclDataType from, const std::byte* source, aclDataType to,
             std::byte* target) {
  VisitAnyType(from, [&](auto from_tag) {
    using From = typename decltype(from_tag)::Type;
    pool.ParallelFor(count, Grain(1), [&](int64_t begin, int64_t end) {
      std::array<Widest<From>, kBlock> block;
      for (int64_t first = begin; first < end; first += kBlock) {
        const int64_t size = std::min(kBlock, end - first);
        for (int64_t i = 0; i < size; ++i) block[static_cast<size_t>(i)] = Load<From>(source, first + i);
        StoreBlock(to, target, first, block.data(), size);
      }
    });
  });
}

}  // namespace acl_host
