// Arithmetic and comparisons of numbers: of the float32 in a register, of a double, or of an int64_t, which wraps
// around and stands for every integer type and for BOOL. Comparisons are 1 or 0. In an unnamed namespace, because each
// vector level has its own.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "families/elementwise/maths.h"
#include "families/elementwise/operations.h"

namespace acl_host {
namespace {

template <typename T>
constexpr bool kIsWhole = std::is_same_v<T, int64_t>;

// The formulas of numbers that are no integers.
template <typename T>
using IfReal = std::enable_if_t<!kIsWhole<T>>;

template <typename T>
[[nodiscard]] T As(const Number& number) {
  if constexpr (kIsWhole<T>) {
    return number.integer;
  } else if constexpr (std::is_same_v<T, FloatLanes>) {
    return Filled(static_cast<float>(number.real));
  } else {
    return number.real;
  }
}

template <typename T>
[[nodiscard]] T As(int number) {
  return As<T>(Number{static_cast<double>(number), number});
}

template <typename T>
[[nodiscard]] T Product(T one, T other) {
  if constexpr (kIsWhole<T>) {
    return static_cast<int64_t>(static_cast<uint64_t>(one) * static_cast<uint64_t>(other));
  } else {
    return one * other;
  }
}

template <typename T>
[[nodiscard]] T Negative(T x) {
  if constexpr (kIsWhole<T>) {
    return static_cast<int64_t>(-static_cast<uint64_t>(x));
  } else {
    return -x;
  }
}

struct Add {
  template <typename T>
  T operator()(T one, T other) const {
    if constexpr (kIsWhole<T>) {
      return static_cast<int64_t>(static_cast<uint64_t>(one) + static_cast<uint64_t>(Product(factor.integer, other)));
    } else {
      return one + As<T>(factor) * other;
    }
  }

  Number factor;
};

struct Multiply {
  template <typename T>
  T operator()(T one, T other) const {
    return Product(one, other);
  }
};

struct Divide {
  template <typename T, typename = IfReal<T>>
  T operator()(T one, T other) const {
    return one / other;
  }
};

// NaN, if one of both is.
struct Maximum {
  template <typename T>
  T operator()(T one, T other) const {
    const T larger = one > other ? one : other;
    if constexpr (kIsWhole<T>) return larger;
    return one != one ? one : larger;
  }
};

struct Minimum {
  template <typename T>
  T operator()(T one, T other) const {
    const T smaller = one < other ? one : other;
    if constexpr (kIsWhole<T>) return smaller;
    return one != one ? one : smaller;
  }
};

struct Where {
  template <typename T>
  T operator()(T condition, T one, T other) const {
    return condition != As<T>(0) ? one : other;
  }
};

struct Equal {
  template <typename T>
  T operator()(T one, T other) const {
    return one == other ? As<T>(1) : As<T>(0);
  }
};

struct Greater {
  template <typename T>
  T operator()(T one, T other) const {
    return one > other ? As<T>(1) : As<T>(0);
  }
};

struct GreaterOrEqual {
  template <typename T>
  T operator()(T one, T other) const {
    return one >= other ? As<T>(1) : As<T>(0);
  }
};

// Of the operands in the other order.
template <typename Formula>
struct Swapped {
  template <typename T>
  T operator()(T one, T other) const {
    return Formula{}(other, one);
  }
};

// Of a tensor and a number.
template <typename Formula>
struct WithNumber {
  template <typename T, typename = std::enable_if_t<std::is_invocable_v<const Formula&, T, T>>>
  T operator()(T x) const {
    return formula(x, As<T>(number));
  }

  Formula formula;
  Number number;
};

// NaN remains. If the bounds are in the wrong order, all is the upper one.
struct Clamp {
  template <typename T>
  T operator()(T x) const {
    if constexpr (std::is_same_v<T, FloatLanes>) {
      return AtMost(AtLeast(x, static_cast<float>(least.real)), static_cast<float>(most.real));
    } else {
      const T above = x < As<T>(least) ? As<T>(least) : x;
      return above > As<T>(most) ? As<T>(most) : above;
    }
  }

  Number least;
  Number most;
};

struct Negate {
  template <typename T>
  T operator()(T x) const {
    return Negative(x);
  }
};

struct Absolute {
  template <typename T>
  T operator()(T x) const {
    if constexpr (kIsWhole<T>) {
      return x < 0 ? Negative(x) : x;
    } else if constexpr (std::is_same_v<T, FloatLanes>) {
      return Size(x);
    } else {
      return std::abs(x);
    }
  }
};

// NaN remains.
struct Relu {
  template <typename T>
  T operator()(T x) const {
    return x < As<T>(0) ? As<T>(0) : x;
  }
};

struct LeakyRelu {
  template <typename T, typename = IfReal<T>>
  T operator()(T x) const {
    return x > As<T>(0) ? x : x * As<T>(slope);
  }

  Number slope;
};

struct Hardswish {
  FloatLanes operator()(FloatLanes x) const { return x * (AtMost(AtLeast(x + 3.0F, 0.0F), 6.0F) / 6.0F); }
};

}  // namespace
}  // namespace acl_host
