// Makes the elements of a result from those of the inputs by a formula of one number of each, or of a register of each.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "families/elementwise/computation.h"
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

// A formula that would convert its inputs does not take them.
template <typename Formula, typename T, size_t... kInput>
constexpr bool TakesAll(std::index_sequence<kInput...>) {
  if constexpr (std::is_invocable_v<const Formula&, std::enable_if_t<kInput + 1 != 0, Operand<T>>...>) {
    return std::is_same_v<std::invoke_result_t<const Formula&, std::enable_if_t<kInput + 1 != 0, Operand<T>>...>,
                          Operand<T>>;
  } else {
    return false;
  }
}

// Whether the formula takes so many inputs of type T.
template <typename Formula, typename T, size_t kInputs>
constexpr bool kTakes = !std::is_same_v<T, Bool> && TakesAll<Formula, T>(std::make_index_sequence<kInputs>());

// The number of inputs of the formula; 0 if there is none for T.
template <typename Formula, typename T>
constexpr size_t kInputsOf = kTakes<Formula, T, 1>   ? 1
                             : kTakes<Formula, T, 2> ? 2
                             : kTakes<Formula, T, 3> ? 3
                             : kTakes<Formula, T, 4> ? 4
                             : kTakes<Formula, T, 5> ? 5
                                                     : 0;

// Integers wrap around in the range of a type.
template <typename T>
void WrapRow(std::byte* row, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const auto number = LoadElement<int64_t>(row, i);
    if constexpr (std::is_integral_v<T>) StoreElement(row, i, int64_t{static_cast<T>(number)});
    if constexpr (std::is_same_v<T, Bool>) StoreElement(row, i, int64_t{number != 0});
  }
}

template <typename T>
void Write(const T* from, std::byte* elements, aclDataType type, int64_t first, int64_t count) {
  VisitNumberType(type, [&](auto tag) {
    using To = typename decltype(tag)::Type;
    WriteRow<To>(from, elements + first * int64_t{sizeof(To)}, count);
  });
}

// Takes the formula and the rows by value: their references could be in memory that is written.
template <typename T, typename Formula, size_t... kInput>
void MakeRow(Formula formula, Rows<sizeof...(kInput)> rows, std::byte* __restrict to, int64_t count,
             std::index_sequence<kInput...>) {
  if constexpr (std::is_same_v<Operand<T>, FloatLanes>) {
    MapRows<T>(rows, MadeRows<1>{to}, count, [&](const auto& load) { return MadeLanes<1>{formula(load(kInput)...)}; });
  } else {
    for (int64_t i = 0; i < count; ++i) StoreElement<T>(to, i, formula(LoadElement<T>(rows[kInput], i)...));
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
template <typename T, typename Formula, size_t... kInput>
void MapElements(const Formula& formula, const Elementwise& work, const KernelArguments& arguments, aclDataType type,
                 std::index_sequence<kInput...> inputs) {
  constexpr size_t kInputs = sizeof...(kInput);
  const Rows<kInputs> addresses = AddressesOf<kInputs>(work, arguments);
  const bool writes_in_place = work.result == type;
  const bool in_place = writes_in_place && (Source<T>::IsInPlace(work.inputs[kInput], type) && ...);
  std::byte* const to = arguments.outputs[0];
  arguments.pool.ParallelFor(work.count, Grain(1), [&](int64_t begin, int64_t end) {
    std::array<Source<T>, kInputs> sources{Source<T>(work.inputs[kInput], addresses[kInput], type, end - begin)...};
    const Scratch<T> made(writes_in_place ? 0 : kBlock);
    const int64_t step = in_place ? end - begin : kBlock;
    for (int64_t first = begin; first < end; first += step) {
      const int64_t count = std::min(step, end - first);
      std::byte* const row = writes_in_place ? to + first * int64_t{sizeof(T)} : made.bytes();
      MakeRow<T>(formula, Rows<kInputs>{sources[kInput].Read(first, count)...}, row, count, inputs);
      if constexpr (std::is_same_v<T, int64_t>) {
        if (work.promoted != type && work.promoted != work.result)
          VisitNumberType(work.promoted, [&](auto tag) { WrapRow<typename decltype(tag)::Type>(row, count); });
      }
      if constexpr (kIsComputed<T>) {
        if (!writes_in_place) Write(made.data(), to, work.result, first, count);
      }
    }
  });
}

}  // namespace
}  // namespace acl_host
