// A normalisation and its gradients: what the plan decides, and the computations.
#pragma once

#include <cstdint>
#include <optional>

#include "families/rows/floats.h"
#include "plan/vector_levels.h"

namespace acl_host {

// The elements are samples x channels x cells, and no size is 0. A group of the channels of a sample has one mean and
// rstd or, without groups, a channel of all samples.
struct NormalisedTensor {
  int64_t samples;
  int64_t channels;
  int64_t cells;
  int64_t groups;  // of a sample; 0 if the channels of all samples are normalised
  int64_t threads;

  [[nodiscard]] bool over_samples() const { return groups == 0; }
};

// The gradients. Operands that are not given, read or wanted have no value.
struct Normalisation : NormalisedTensor {
  FloatOperand grad_out;
  std::optional<FloatOperand> input;
  std::optional<FloatOperand> mean;  // 0 without
  std::optional<FloatOperand> rstd;  // 1 without
  std::optional<FloatOperand> weight;
  std::optional<FloatOperand> grad_input;
  std::optional<FloatOperand> grad_weight;
  std::optional<FloatOperand> grad_bias;
  bool is_centred = true;     // otherwise the mean is 0, and the gradient is not centred either
  bool is_constant = false;   // mean and rstd do not depend on the input
  bool has_variance = false;  // in the place of rstd; eps is added to it
  float eps = 0;

  [[nodiscard]] bool has_parameters() const { return grad_weight || grad_bias; }
  [[nodiscard]] bool needs_sums() const { return (grad_input && !is_constant) || has_parameters(); }
  // Whether sums of slots are kept.
  [[nodiscard]] bool has_sums() const { return over_samples() ? needs_sums() : has_parameters(); }
};

// The normalised elements, times weight, plus bias. Operands that are not given, read or wanted have no value.
struct NormalisationValue : NormalisedTensor {
  FloatOperand input;
  std::optional<FloatOperand> weight;
  std::optional<FloatOperand> bias;
  FloatOperand out;
  std::optional<FloatOperand> mean;  // that is returned
  std::optional<FloatOperand> rstd;
  std::optional<FloatOperand> running_mean;  // of channels, in the place of their own if these are constant
  std::optional<FloatOperand> running_var;
  std::optional<FloatOperand> updated_mean;  // the running ones with the channels' own in them
  std::optional<FloatOperand> updated_var;
  bool is_centred = true;       // otherwise the mean is 0, and the variance the mean square
  bool is_constant = false;     // the running statistics count, and are not updated
  bool saves_variance = false;  // in the place of rstd
  float eps = 0;
  float momentum = 0;

  [[nodiscard]] bool has_sums() const { return over_samples() && !is_constant; }
};

// How the elements are divided. It does not depend on the number of threads, but for who computes what.
struct NormalisationLayout {
  NormalisationLayout(const NormalisedTensor& norm, bool has_sums);

  // Samples of short channels that are added to the sums at once.
  static constexpr int64_t kRowsTogether = 4;
  static constexpr int64_t kMostOfBlock = 256;

  // A slot is the cells of a sample that have sums of their own: a part of a channel, or each cell if channels are so
  // short that vectors go across them.
  bool is_short;
  int64_t slot_cells;
  int64_t slots_of_channel;
  int64_t slots;

  // A block is the channels that are computed together: a group, or as many as fill cache lines.
  int64_t block_channels;
  int64_t blocks;
  int64_t block_slots;

  // Samples are added up in chunks, and these in order. The sums of all chunks are little beside the elements.
  int64_t chunk_samples;
  int64_t chunks;

  // A tile is what is computed at once: slots of a block, in samples of a chunk.
  int64_t tile_slots;
  int64_t tiles;

  // A task is what a thread computes by itself: a block of all samples, or of a chunk in steps of samples that stay in
  // the cache. If tasks are few or do not stay there, threads share their tiles.
  int64_t task_samples;
  int64_t tasks;
  int64_t step_samples;
  bool shares_tasks;

  // Numbers of each channel of a block that has a mean of its own, once for each cell if these are slots.
  static constexpr int64_t kNumbers = 5;
  int64_t block_numbers;

  // The place in a sample of a slot's first element.
  [[nodiscard]] int64_t ElementOf(const NormalisedTensor& norm, int64_t slot) const {
    return slot / slots_of_channel * norm.cells + slot % slots_of_channel * slot_cells;
  }

  // The scratch memory of the arguments, each unless it is 0: sums of slots, and statistics of samples or channels.
  uint64_t sums_bytes;
  uint64_t statistics_bytes;
};

// The normalised elements and the wanted statistics, each rounded to its type.
template <VectorLevel>
struct NormalisationForward {
  static void Run(const NormalisationValue& norm, const NormalisationLayout& layout, const KernelArguments& arguments);
};

// The wanted gradients, each rounded to its type.
template <VectorLevel>
struct NormalisationBackward {
  static void Run(const Normalisation& norm, const NormalisationLayout& layout, const KernelArguments& arguments);
};

}  // namespace acl_host
