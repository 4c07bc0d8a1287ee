// The loops over one row or a part of it. All elements are float32 in memory of any alignment.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "families/rows/floats.h"

namespace acl_host {
namespace {

struct Row {
  const std::byte* grad_out;
  const std::byte* input;
  float mean;
  float rstd;
};

// Along a row, of g = gradOut * weight and of g times the normalised input: the sums, or the means.
struct RowSums {
  float g;
  float g_normalised;
};

// Not inlined, so that the loop over short rows stays short.
[[gnu::noinline]] RowSums SumLongRow(const Row& row, const std::byte* __restrict weight, int64_t count) {
  const Row of = row;
  const auto [g, g_normalised] = SumsAlong<2>(count, [&](int64_t i, auto lanes) {
    const FloatLanes each = LoadLanes<float>(of.grad_out, i, lanes) * LoadLanes<float>(weight, i, lanes);
    return std::array{each, each * ((LoadLanes<float>(of.input, i, lanes) - of.mean) * of.rstd)};
  });
  return {g, g_normalised};
}

inline RowSums SumRow(const Row& row, const std::byte* __restrict weight, int64_t count) {
  if (count >= kSumsAlong) return SumLongRow(row, weight, count);
  const std::byte* __restrict const grad_out = row.grad_out;
  const std::byte* __restrict const input = row.input;
  const float mean = row.mean;
  const float rstd = row.rstd;
  RowSums sums{0, 0};
  for (int64_t i = 0; i < count; ++i) {
    const float g = FloatAt(grad_out, i) * FloatAt(weight, i);
    sums.g += g;
    sums.g_normalised += g * ((FloatAt(input, i) - mean) * rstd);
  }
  return sums;
}

inline void MakeGradInput(const Row& row, const std::byte* __restrict weight, const RowSums& means, int64_t count,
                          std::byte* __restrict grad_input) {
  const std::byte* __restrict const grad_out = row.grad_out;
  const std::byte* __restrict const input = row.input;
  const float mean = row.mean;
  const float rstd = row.rstd;
  const RowSums of = means;
  for (int64_t i = 0; i < count; ++i) {
    const float g = FloatAt(grad_out, i) * FloatAt(weight, i);
    StoreElement(grad_input, i, rstd * (g - of.g - (FloatAt(input, i) - mean) * rstd * of.g_normalised));
  }
}

// Adds gradOut times the normalised input, and gradOut, to the sums of the columns.
inline void AddColumns(const Row& row, int64_t count, std::byte* __restrict weight_sums,
                       std::byte* __restrict bias_sums) {
  const std::byte* __restrict const grad_out = row.grad_out;
  const std::byte* __restrict const input = row.input;
  const float mean = row.mean;
  const float rstd = row.rstd;
  for (int64_t i = 0; i < count; ++i) {
    const float grad = FloatAt(grad_out, i);
    const float product = grad * ((FloatAt(input, i) - mean) * rstd);
    StoreElement(weight_sums, i, FloatAt(weight_sums, i) + product);
    StoreElement(bias_sums, i, FloatAt(bias_sums, i) + grad);
  }
}

// The same for four rows that follow one another.
inline void AddFourColumns(const Row* rows, int64_t count, std::byte* __restrict weight_sums,
                           std::byte* __restrict bias_sums) {
  const Row a = rows[0];
  const Row b = rows[1];
  const Row c = rows[2];
  const Row d = rows[3];
  const auto product = [](const Row& row, int64_t i) {
    return FloatAt(row.grad_out, i) * ((FloatAt(row.input, i) - row.mean) * row.rstd);
  };
  for (int64_t i = 0; i < count; ++i) {
    const float weight_sum = (product(a, i) + product(b, i)) + (product(c, i) + product(d, i));
    const float bias_sum =
        (FloatAt(a.grad_out, i) + FloatAt(b.grad_out, i)) + (FloatAt(c.grad_out, i) + FloatAt(d.grad_out, i));
    StoreElement(weight_sums, i, FloatAt(weight_sums, i) + weight_sum);
    StoreElement(bias_sums, i, FloatAt(bias_sums, i) + bias_sum);
  }
}

}  // namespace
}  // namespace acl_host
