// The gradients of batch normalisation: what the plan decides, and the computation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "acl/acl_base.h"
#include "plan/plan.h"
#include "plan/vector_levels.h"

namespace acl_host {

// One value for each channel, as an input of the launch; `absent` for all if there is none.
struct ChannelInput {
  int index = -1;
  aclDataType type = ACL_FLOAT;
  float absent = 0;
};

// An output of the launch; the index is negative if it is not wanted.
struct NormOutput {
  int index = -1;
  aclDataType type = ACL_FLOAT;

  [[nodiscard]] bool is_wanted() const { return index >= 0; }
};

struct BatchNorm {
  int64_t samples;
  int64_t channels;
  int64_t cells;  // of one channel of a sample
  int64_t threads;
  aclDataType type;
  bool training;
  bool spread_is_variance;  // and eps is added to it; otherwise it is the reciprocal of the standard deviation
  float eps;

  // Inputs 0 and 1 of the launch are gradOut and, if it is read, input.
  ChannelInput weight;
  ChannelInput mean;
  ChannelInput spread;
  NormOutput grad_input;
  NormOutput grad_weight;
  NormOutput grad_bias;

  // Sums of fixed parts of a channel are added in order, so the result does not depend on the number of threads. A part
  // is some whole samples, or a piece of one.
  [[nodiscard]] int64_t part_samples() const { return cells < kLeastPart ? kLeastPart / cells : 1; }
  [[nodiscard]] int64_t part_cells() const { return cells < kMostPart ? cells : kMostPart; }
  [[nodiscard]] int64_t pieces() const { return (cells - 1) / part_cells() + 1; }
  [[nodiscard]] int64_t parts() const { return ((samples - 1) / part_samples() + 1) * pieces(); }

  // Neighbouring channels are computed together. With many such blocks, a thread computes whole blocks in little memory
  // of its own; otherwise threads share the parts of all.
  [[nodiscard]] int64_t block_channels() const {
    const int64_t most = (kBlockElements - 1) / cells + 1;
    return most < channels ? most : channels;
  }
  [[nodiscard]] int64_t blocks() const { return (channels - 1) / block_channels() + 1; }
  [[nodiscard]] bool has_many_blocks() const { return blocks() >= 2 * threads; }

  // The gradient of a channel depends on all its values when training.
  [[nodiscard]] bool needs_sums() const {
    return (training && grad_input.is_wanted()) || grad_weight.is_wanted() || grad_bias.is_wanted();
  }
  [[nodiscard]] bool reads_input() const { return (training && grad_input.is_wanted()) || grad_weight.is_wanted(); }

  static constexpr int64_t kLeastPart = 64;
  static constexpr int64_t kMostPart = 2048;
  static constexpr int64_t kBlockElements = 256;  // of a sample that a block has, at least
};

// What the computation keeps of a channel, in scratch memory if there are few blocks: sums of each part, and the rest.
inline constexpr uint64_t kNormPartBytes = 2 * sizeof(double);
inline constexpr uint64_t kNormChannelBytes = sizeof(double) + 4 * sizeof(float);
// The scratch memory of the launch may begin anywhere.
inline constexpr uint64_t kNormAlignment = 64;

template <VectorLevel>
struct BatchNormBackward {
  static void Run(const BatchNorm& norm, const KernelArguments& arguments);
};

}  // namespace acl_host
