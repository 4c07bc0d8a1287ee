// The loops over a run of elements that follow one another: its share of the sums, and the gradient of the input.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "families/rows/floats.h"

namespace acl_host {
namespace {

// A number of each element of a run; a float is that of all.
struct Each {
  const std::byte* numbers;
};
struct EachTimes {
  Each each;
  float factor;
};

template <typename Count>
[[nodiscard]] inline float NumberAt(float number, int64_t, Count) {
  return number;
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

template <typename T, typename Weight>
[[nodiscard]] Sums<float> SumOf(const Run<T, float>& run, int64_t count, Weight weight) {
  if (count <= kFloatLanes) {
    // The same sum of a run that fits in one vector.
    const FloatLanes grads = run.Grads(0, count) * NumberAt(weight, 0, count);
    const FloatLanes products = grads * run.Normalised(0, count);
    return {SumOfLanes(FloatLanes{} + FirstLanes(grads, count)),
            SumOfLanes(FloatLanes{} + FirstLanes(products, count))};
  }
  SumsOfRuns<2> sums;
  AddRun(run, count, weight, sums);
  const auto [grad, product] = sums.Total();
  return {grad, product};
}

// Adds one run or four to sums of each of their elements.
template <size_t kRuns, typename T, typename Number>
void AddRuns(const std::array<Run<T, Number>, kRuns>& runs, int64_t count, std::byte* __restrict grad_sums,
             std::byte* __restrict product_sums) {
  const std::array<Run<T, Number>, kRuns> of = runs;
  ForLanes(count, [&](int64_t i, auto lanes) {
    const auto add = [&](const auto& number, std::byte* sums) {
      FloatLanes sum = number(of[0]);
      if constexpr (kRuns == 4) sum = (sum + number(of[1])) + (number(of[2]) + number(of[3]));
      StoreLanes<float>(LoadLanes<float>(sums, i, lanes) + sum, sums, i, lanes);
    };
    add([&](const auto& run) { return run.Grads(i, lanes); }, grad_sums);
    add([&](const auto& run) { return FloatLanes{run.Grads(i, lanes) * run.Normalised(i, lanes)}; }, product_sums);
  });
}

// Writes the gradients of the input: scale * gradOut + product * normalised + shift.
template <typename To, typename T, typename Scale, typename Number>
void MakeRun(Run<T, Number> run, int64_t count, Scale scale, Number product, Number shift, std::byte* __restrict to) {
  ForLanes(count, [&](int64_t i, auto lanes) {
    const FloatLanes scaled = run.Grads(i, lanes) * NumberAt(scale, i, lanes);
    const FloatLanes more = run.Normalised(i, lanes) * NumberAt(product, i, lanes) + NumberAt(shift, i, lanes);
    StoreLanes<To>(scaled + more, to, i, lanes);
  });
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
