// The loops over a row: its share of the sums of its channel, and the gradient of the input.
//
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "computation.h"
#include "tensors/elements.h"
#include "tensors/rows.h"
#include "tensors/sums.h"

namespace acl_host {
namespace {

constexpr int kLanes = 16;
// Of whole rows, and of channels side by side.
static_assert(BatchNorm::kMostPart / kLanes <= kMostFloatAdditions && BatchNorm::kLeastPart <= kMostFloatAdditions);

struct Part {
  double grad = 0;  // sum(gradOut)
  double dot = 0;   // sum(gradOut * (input - mean))
};

struct Lanes {
  float grad[kLanes] = {};
  float dot[kLanes] = {};

  [[nodiscard]] Part Sum() const {
    Part part;
    for (int lane = 0; lane < kLanes; ++lane) {
      part.grad += double{grad[lane]};
      part.dot += double{dot[lane]};
    }
    return part;
  }
};

// As many floats as there are lanes, added and multiplied at once: a compiler does not find that in a loop over lanes.
typedef float Floats __attribute__((vector_size(kLanes * sizeof(float))));

template <bool kReadsInput>
void AddFloats(const std::byte* grad, const std::byte* input, float mean, int64_t count, Lanes& lanes) {
  Floats grad_sums;
  Floats dots;
  std::memcpy(&grad_sums, lanes.grad, sizeof(grad_sums));
  std::memcpy(&dots, lanes.dot, sizeof(dots));
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Floats values;
    std::memcpy(&values, grad + i * int64_t{sizeof(float)}, sizeof(values));
    grad_sums += values;
    if constexpr (kReadsInput) {
      Floats inputs;
      std::memcpy(&inputs, input + i * int64_t{sizeof(float)}, sizeof(inputs));
      dots += values * (inputs - mean);
    }
  }
  std::memcpy(lanes.grad, &grad_sums, sizeof(grad_sums));
  std::memcpy(lanes.dot, &dots, sizeof(dots));
  for (int lane = 0; i < count; ++i, ++lane) {
    const float value = LoadElement<float>(grad, i);
    lanes.grad[lane] += value;
    if constexpr (kReadsInput) lanes.dot[lane] += value * (LoadElement<float>(input, i) - mean);
  }
}

// Adds a row of channels, each to its own sums.
template <bool kReadsInput>
void AddColumns(const std::byte* __restrict grad, const std::byte* __restrict input, const float* __restrict mean,
                int64_t count, float* __restrict grad_sums, float* __restrict dots) {
  for (int64_t i = 0; i < count; ++i) {
    const float value = LoadElement<float>(grad, i);
    grad_sums[i] += value;
    if constexpr (kReadsInput) dots[i] += value * (LoadElement<float>(input, i) - mean[i]);
  }
}

// The gradient of an input is grad * gradOut + input * (input - mean) + shift: of the channel of a row, or of as many
// channels as the row has.
template <typename Scale>
struct Scales {
  Scale grad;
  Scale input;
  Scale mean;
  Scale shift;
};

[[nodiscard]] inline float At(float scale, int64_t) { return scale; }
[[nodiscard]] inline float At(const float* scales, int64_t i) { return scales[i]; }

template <bool kTraining, typename Scale>
void ScaleRow(const std::byte* __restrict grad, const std::byte* __restrict input, int64_t count, Scales<Scale> scales,
              std::byte* __restrict to) {
  for (int64_t i = 0; i < count; ++i) {
    float value = At(scales.grad, i) * LoadElement<float>(grad, i);
    if constexpr (kTraining) {
      const float centred = LoadElement<float>(input, i) - At(scales.mean, i);
      value = value + At(scales.input, i) * centred + At(scales.shift, i);
    }
    StoreElement(to, i, value);
  }
}

// A row of floats: the row itself, or a copy of up to kMostPart elements of another type.
template <typename T>
class FloatRow {
 public:
  [[nodiscard]] const std::byte* Of(const std::byte* row, int64_t count) {
    if constexpr (std::is_same_v<T, float>) {
      return row;
    } else {
      WidenRow<T>(row, copy_, count);
      return reinterpret_cast<const std::byte*>(copy_);
    }
  }

 private:
  float copy_[std::is_same_v<T, float> ? 1 : BatchNorm::kMostPart];
};

}  // namespace
}  // namespace acl_host
