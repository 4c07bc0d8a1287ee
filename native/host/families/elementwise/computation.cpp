#include "families/elementwise/computation.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "families/elementwise/formulas.h"
#include "families/elementwise/source.h"
#include "plan/scratch.h"
#include "tensors/elements.h"
#include "tensors/made_rows.h"
#include "tensors/rows.h"

namespace acl_host {
namespace {

// What the formulas take for elements of type T.
template <typename T>
using Operand = std::conditional_t<std::is_same_v<Wide<T>, float>, FloatLanes, T>;

template <typename Gradient, typename T, size_t... kInput>
constexpr bool TakesAll(std::index_sequence<kInput...>) {
  return std::is_invocable_v<const Gradient&, std::enable_if_t<kInput + 1 != 0, Operand<T>>...>;
}

// Whether the gradient has a formula of so many inputs for elements of type T.
template <typename Gradient, typename T, size_t kInputs>
constexpr bool kTakes = !std::is_same_v<T, Bool> && TakesAll<Gradient, T>(std::make_index_sequence<kInputs>());

// The number of inputs of the formula; 0 if T has no formula.
template <typename Gradient, typename T>
constexpr size_t kInputsOf = kTakes<Gradient, T, 2>   ? 2
                             : kTakes<Gradient, T, 3> ? 3
                             : kTakes<Gradient, T, 4> ? 4
                             : kTakes<Gradient, T, 5> ? 5
                                                      : 0;

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

// Takes the gradient and the rows by value: their references could be in memory that is written.
template <typename T, typename Gradient, size_t... kInput>
void MakeRow(Gradient gradient, Rows<sizeof...(kInput)> rows, std::byte* __restrict to, int64_t count,
             std::index_sequence<kInput...>) {
  if constexpr (std::is_same_v<Operand<T>, FloatLanes>) {
    MapRows<T>(rows, MadeRows<1>{to}, count, [&](const auto& load) { return MadeLanes<1>{gradient(load(kInput)...)}; });
  } else {
    for (int64_t i = 0; i < count; ++i) StoreElement<T>(to, i, gradient(LoadElement<T>(rows[kInput], i)...));
  }
}

// The addresses of the inputs, of which those that are not given have none.
template <size_t kInputs>
Rows<kInputs> AddressesOf(const Elementwise& work, const KernelArguments& arguments) {
  Rows<kInputs> addresses{};
  auto next = arguments.inputs.begin();
  for (size_t i = 0; i < kInputs; ++i) {
    if (work.inputs[i].is_given) addresses[i] = *next++;
  }
  return addresses;
}

// In numbers of type T, which have this data type.
template <typename T, typename Gradient, size_t... kInput>
void Make(const Gradient& gradient, const Elementwise& work, const KernelArguments& arguments, aclDataType type,
          std::index_sequence<kInput...> inputs) {
  constexpr size_t kInputs = sizeof...(kInput);
  const Rows<kInputs> addresses = AddressesOf<kInputs>(work, arguments);
  const bool writes_in_place = work.gradient == type;
  const bool in_place = writes_in_place && (Source<T>::IsInPlace(work.inputs[kInput], type) && ...);
  std::byte* const to = arguments.outputs[0];
  arguments.pool.ParallelFor(work.count, Grain(1), [&](int64_t begin, int64_t end) {
    std::array<Source<T>, kInputs> sources{Source<T>(work.inputs[kInput], addresses[kInput], type, end - begin)...};
    const Scratch<T> made(writes_in_place ? 0 : kBlock);
    const int64_t step = in_place ? end - begin : kBlock;
    for (int64_t first = begin; first < end; first += step) {
      const int64_t count = std::min(step, end - first);
      std::byte* const row = writes_in_place ? to + first * int64_t{sizeof(T)} : made.bytes();
      MakeRow<T>(gradient, Rows<kInputs>{sources[kInput].Read(first, count)...}, row, count, inputs);
      if constexpr (kIsComputed<T>) {
        if (!writes_in_place) Write(made.data(), to, work.gradient, first, count);
      }
    }
  });
}

}  // namespace

template <>
void ElementwiseBackward<VECTOR_LEVEL>::Run(const Elementwise& work, const KernelArguments& arguments) {
  const auto make = [&](auto tag, aclDataType type) {
    using T = typename decltype(tag)::Type;
    VisitGradient<T>(work, [&](const auto& gradient) {
      constexpr size_t kInputs = kInputsOf<std::decay_t<decltype(gradient)>, T>;
      if constexpr (kInputs > 0) Make<T>(gradient, work, arguments, type, std::make_index_sequence<kInputs>());
    });
  };
  if (work.is_alike) {
    VisitNumberType(work.gradient, [&](auto tag) { make(tag, work.gradient); });
  } else {
    VisitFloatOrComplexType(work.computed, [&](auto tag) {
      if constexpr (kIsComputed<typename decltype(tag)::Type>) make(tag, work.computed);
    });
  }
}

}  // namespace acl_host
