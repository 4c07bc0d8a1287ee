#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "families/rows/floats.h"
#include "plan/vector_levels.h"

namespace acl_host {

// No size is 0. Operands that are not given or not wanted have no value.
struct GroupNorm {
  int64_t samples;
  int64_t channels;
  int64_t area;  // of each channel
  int64_t groups;
  FloatOperand grad_out;
  FloatOperand input;
  FloatOperand mean;
  FloatOperand rstd;
  std::optional<FloatOperand> gamma;
  std::optional<FloatOperand> grad_input;
  std::optional<FloatOperand> grad_gamma;
  std::optional<FloatOperand> grad_beta;

  [[nodiscard]] int64_t parts() const { return (area - 1) / kRowPart + 1; }
  [[nodiscard]] int64_t planes() const { return samples * channels; }
  // Groups that stay in the cache between the sums and the gradients are made one by one, in chunks of samples: few, so
  // that their sums take little memory.
  static constexpr int64_t kMostOfGroup = 65536;
  static constexpr int64_t kChunks = 32;

  [[nodiscard]] int64_t channels_of_group() const { return channels / groups; }
  [[nodiscard]] bool has_small_groups() const { return parts() == 1 && channels_of_group() * area <= kMostOfGroup; }
  [[nodiscard]] int64_t chunk_samples() const { return std::min((samples - 1) / kChunks + 1, kMostFloatAdditions); }
  [[nodiscard]] int64_t chunks() const { return (samples - 1) / chunk_samples() + 1; }

  // The sums of shorter channels would take about as much memory as the channels: they are found again when needed.
  static constexpr int64_t kLeastKept = 64;
  [[nodiscard]] bool keeps_sums() const { return has_small_groups() || area >= kLeastKept; }

  // Two sums of each channel of a chunk; or of each part of each channel of a sample, and two means of each group.
  [[nodiscard]] uint64_t sums_bytes() const {
    if (!keeps_sums()) return 0;
    return static_cast<uint64_t>(has_small_groups() ? chunks() * channels : planes() * parts()) * 2 * sizeof(float);
  }
  [[nodiscard]] uint64_t means_bytes() const {
    return has_small_groups() ? 0 : static_cast<uint64_t>(samples * groups) * 2 * sizeof(float);
  }
};

// The wanted gradients, each rounded to its type. The scratch memory has sums_bytes() and means_bytes(), each
// unless it is 0.
template <VectorLevel>
struct GroupNormBackward {
  static void Run(const GroupNorm& norm, const KernelArguments& arguments);
};

}  // namespace acl_host
