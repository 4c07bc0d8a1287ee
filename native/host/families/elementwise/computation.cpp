#include "families/elementwise/computation.h"

#include <algorithm>
#include <complex>
#include <type_traits>

#include "families/elementwise/formulas.h"
#include "plan/scratch.h"
#include "tensors/elements.h"
#include "tensors/rows.h"

namespace acl_host {
namespace {

// Elements that are converted at a time: three rows of them stay in the first cache.
constexpr int64_t kBlock = 1024;

// What the formulas take for elements of type T.
template <typename T>
using Operand = std::conditional_t<std::is_same_v<Wide<T>, float>, FloatLanes, T>;

// Whether the gradient has a formula for elements of type T.
template <typename Gradient, typename T>
constexpr bool kComputes = !std::is_same_v<T, Bool> && std::is_invocable_v<const Gradient&, Operand<T>, Operand<T>>;

// Whether elements of type From have a value of type To.
template <typename From, typename To>
constexpr bool kConvertible = kIsComplex<To> || !kIsComplex<From>;

template <typename T, typename From>
[[nodiscard]] T Converted(From value) {
  if constexpr (kIsComplex<T> && kIsComplex<From>) {
    using Part = typename T::value_type;
    return {static_cast<Part>(value.real()), static_cast<Part>(value.imag())};
  } else if constexpr (kIsComplex<T>) {
    return {static_cast<typename T::value_type>(value), 0};
  } else {
    return static_cast<T>(value);
  }
}

// Reads elements of any type as T: in place, or by way of a converted block.
template <typename T>
class Source {
 public:
  Source(const std::byte* elements, aclDataType type, bool in_place)
      : elements_(elements), type_(type), block_(in_place ? 0 : kBlock), in_place_(in_place) {}

  // At most kBlock elements, unless they are read in place. Valid up to the next call.
  [[nodiscard]] const std::byte* Read(int64_t first, int64_t count) const {
    if (in_place_) return elements_ + first * int64_t{sizeof(T)};
    VisitFloatOrComplexType(type_, [&](auto tag) {
      using From = typename decltype(tag)::Type;
      const std::byte* const from = elements_ + first * int64_t{sizeof(From)};
      if constexpr (std::is_same_v<Wide<From>, T>) {
        WidenRow<From>(from, block_.data(), count);
      } else if constexpr (kConvertible<Wide<From>, T>) {
        for (int64_t i = 0; i < count; ++i) block_.data()[i] = Converted<T>(WidenElement<From>(from, i));
      }
    });
    return reinterpret_cast<const std::byte*>(block_.data());
  }

 private:
  const std::byte* const elements_;
  const aclDataType type_;
  const Scratch<T> block_;
  const bool in_place_;
};

template <typename T>
void Write(const T* from, std::byte* elements, aclDataType type, int64_t first, int64_t count) {
  VisitFloatOrComplexType(type, [&](auto tag) {
    using To = typename decltype(tag)::Type;
    std::byte* const to = elements + first * int64_t{sizeof(To)};
    if constexpr (std::is_same_v<Wide<To>, T>) {
      RoundRow<To>(from, to, count);
    } else if constexpr (kConvertible<T, Wide<To>>) {
      for (int64_t i = 0; i < count; ++i) RoundElement<To>(to, i, Converted<Wide<To>>(from[i]));
    }
  });
}

// Takes the gradient by value: its parameter could be in memory that is written.
template <typename T, typename Gradient>
void MakeRow(Gradient gradient, const std::byte* __restrict grads, const std::byte* __restrict saved,
             std::byte* __restrict to, int64_t count) {
  if constexpr (std::is_same_v<Operand<T>, FloatLanes>) {
    ForLanes(count, [&](int64_t i, auto lanes) {
      StoreLanes<T>(gradient(LoadLanes<T>(grads, i, lanes), LoadLanes<T>(saved, i, lanes)), to, i, lanes);
    });
  } else {
    for (int64_t i = 0; i < count; ++i) {
      StoreElement<T>(to, i, gradient(LoadElement<T>(grads, i), LoadElement<T>(saved, i)));
    }
  }
}

// Of tensors of one type.
template <typename T, typename Gradient>
void MakeAlike(const Gradient& gradient, const Elementwise& work, const KernelArguments& arguments) {
  arguments.pool.ParallelFor(work.count, Grain(1), [&](int64_t begin, int64_t end) {
    const int64_t offset = begin * int64_t{sizeof(T)};
    MakeRow<T>(gradient, arguments.inputs[0] + offset, arguments.inputs[1] + offset, arguments.outputs[0] + offset,
               end - begin);
  });
}

template <typename T, typename Gradient>
void MakeMixed(const Gradient& gradient, const Elementwise& work, const KernelArguments& arguments) {
  const auto is_computed = [&](aclDataType type) { return type == work.computed; };
  const bool in_place = is_computed(work.gradient);
  arguments.pool.ParallelFor(work.count, Grain(1), [&](int64_t begin, int64_t end) {
    const Source<T> grads(arguments.inputs[0], work.grad_output, is_computed(work.grad_output));
    const Source<T> saved(arguments.inputs[1], work.saved, is_computed(work.saved));
    const Scratch<T> made(in_place ? 0 : kBlock);
    std::byte* const to = arguments.outputs[0];
    for (int64_t first = begin; first < end; first += kBlock) {
      const int64_t count = std::min(kBlock, end - first);
      std::byte* const row = in_place ? to + first * int64_t{sizeof(T)} : reinterpret_cast<std::byte*>(made.data());
      MakeRow<T>(gradient, grads.Read(first, count), saved.Read(first, count), row, count);
      if (!in_place) Write(made.data(), to, work.gradient, first, count);
    }
  });
}

}  // namespace

template <>
void ElementwiseBackward<VECTOR_LEVEL>::Run(const Elementwise& work, const KernelArguments& arguments) {
  const bool alike = work.grad_output == work.saved && work.saved == work.gradient;
  VisitGradient(work, [&](const auto& gradient) {
    using Gradient = std::decay_t<decltype(gradient)>;
    if (alike) {
      VisitNumberType(work.gradient, [&](auto tag) {
        using T = typename decltype(tag)::Type;
        if constexpr (kComputes<Gradient, T>) MakeAlike<T>(gradient, work, arguments);
      });
    } else {
      VisitFloatOrComplexType(work.computed, [&](auto tag) {
        using T = typename decltype(tag)::Type;
        if constexpr (std::is_same_v<Wide<T>, T> && kComputes<Gradient, T>) MakeMixed<T>(gradient, work, arguments);
      });
    }
  });
}

}  // namespace acl_host
