// The loops over a run of elements that follow one another: its share of the sums, and the gradient of the input.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "families/rows/floats.h"

namespace acl_host {
namespace {

// A number of each element of a run; a float is that of all, and lanes are those of a run that fits in one vector.
struct Each {
  const std::byte* numbers;
};
struct EachTimes {
  Each each;
  float factor;
};
inline EachTimes operator*(Each each, float factor) { return {each, factor}; }

template <typename Count>
[[nodiscard]] inline float NumberAt(float number, int64_t, Count) {
  return number;
}
template <typename Count>
[[nodiscard]] inline FloatLanes NumberAt(FloatLanes numbers, int64_t, Count) {
  return numbers;
}
template <typename Count>
[[nodiscard]] inline FloatLanes NumberAt(Each each, int64_t i, Count lanes) {
  return LoadLanes<float>(each.numbers, i, lanes);
}
template <typename Count>
[[nodiscard]] inline FloatLanes NumberAt(EachTimes product, int64_t i, Count lanes) {
  return NumberAt(product.each, i, lanes) * product.factor;
}

template <typename T, typename Number>
struct Run {
  const std::byte* grads;
  const std::byte* inputs;
  Number mean;
  Number rstd;

  template <typename Count>
  [[nodiscard]] FloatLanes Grads(int64_t i, Count lanes) const {
    return LoadLanes<T>(grads, i, lanes);
  }
  template <typename Count>
  [[nodiscard]] FloatLanes Normalised(int64_t i, Count lanes) const {
    return (LoadLanes<T>(inputs, i, lanes) - NumberAt(mean, i, lanes)) * NumberAt(rstd, i, lanes);
  }
};

// Sums of gradOut, which may be weighted, and of that times the normalised input.
template <typename Sum>
struct Sums {
  Sum grad;
  Sum product;
};

template <typename T, typename Weight>
void AddRun(const Run<T, float>& run, int64_t count, Weight weight, SumsOfRuns<2>& sums) {
  const Run<T, float> of = run;
  sums.Add(count, [&](int64_t i, auto lanes) {
    const FloatLanes grads = of.Grads(i, lanes) * NumberAt(weight, i, lanes);
    return std::array{grads, grads * of.Normalised(i, lanes)};
  });
}

// Inlined, so that a loop over short runs prepares what they share once.
template <typename T, typename Weight>
[[nodiscard, gnu::always_inline]] inline Sums<float> SumOf(const Run<T, float>& run, int64_t count, Weight weight) {
  SumsOfRuns<2> sums;
  AddRun(run, count, weight, sums);
  const auto [grad, product] = sums.Total();
  return {grad, product};
}

// The same sum of a run that fits in one vector.
template <typename T>
[[nodiscard]] inline Sums<float> SumOf(const Run<T, float>& run, int64_t count, FloatLanes weight) {
  const FloatLanes grads = run.Grads(0, count) * weight;
  const FloatLanes products = grads * run.Normalised(0, count);
  return {SumOfLanes(FloatLanes{} + FirstLanes(grads, count)), SumOfLanes(FloatLanes{} + FirstLanes(products, count))};
}

// Adds one run or four to sums of each of their elements from i on.
template <size_t kRuns, typename T, typename Number, typename Count>
[[nodiscard]] inline Sums<FloatLanes> AddRuns(const std::array<Run<T, Number>, kRuns>& runs, int64_t i, Count lanes,
                                              const Sums<FloatLanes>& sums) {
  const auto sum = [&](const auto& number) -> FloatLanes {
    if constexpr (kRuns == 1)
      return number(runs[0]);
    else
      return (number(runs[0]) + number(runs[1])) + (number(runs[2]) + number(runs[3]));
  };
  return {
      sums.grad + sum([&](const auto& run) { return run.Grads(i, lanes); }),
      sums.product + sum([&](const auto& run) { return FloatLanes{run.Grads(i, lanes) * run.Normalised(i, lanes)}; })};
}

// Writes the gradients of the input: scale * gradOut + product * normalised + shift.
template <typename To, typename T, typename Scale, typename Number>
void MakeRun(Run<T, Number> run, int64_t count, Scale scale, Number product, Number shift, std::byte* __restrict to) {
  const auto make = [&](int64_t i, auto lanes) {
    const FloatLanes scaled = run.Grads(i, lanes) * NumberAt(scale, i, lanes);
    const FloatLanes more = run.Normalised(i, lanes) * NumberAt(product, i, lanes) + NumberAt(shift, i, lanes);
    StoreLanes<To>(scaled + more, to, i, lanes);
  };
  if constexpr (std::is_same_v<Scale, FloatLanes>)
    make(0, count);
  else
    ForLanes(count, make);
}

// The same if they are scale * gradOut alone.
template <typename To, typename T, typename Number>
void ScaleRun(Run<T, Number> run, int64_t count, Number scale, std::byte* __restrict to) {
  ForLanes(count, [&](int64_t i, auto lanes) {
    StoreLanes<To>(run.Grads(i, lanes) * NumberAt(scale, i, lanes), to, i, lanes);
  });
}

}  // namespace
}  // namespace acl_host
