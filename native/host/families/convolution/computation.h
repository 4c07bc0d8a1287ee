// Convolutions and their gradients.
//
// A convolution has a small and a big tensor: its result and its input, or those of a transposed convolution in turn.
// Position q of the small one touches the positions q * stride - padding + k * dilation of the big one, for each tap k
// of the kernel. So three sums are enough, each over what the other two tensors hold:
//
//   of big     big[n, c, y]    = sum over o and k, with y = q * s - p + k * d, of small[n, o, q] * weight[o, c, k]
//   of small   small[n, o, q]  = sum over c and k of big[n, c, q * s - p + k * d] * weight[o, c, k]
//   of weight  weight[o, c, k] = sum over n and q of small[n, o, q] * big[n, c, q * s - p + k * d]
//
// Positions outside of the big tensor hold zeros. A convolution's result is the sum of small, a transposed one's that
// of big; the gradient of its input is the other one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "plan/plan.h"
#include "tensors/tensor.h"

namespace acl_host {

inline constexpr size_t kConvolvedAxes = 3;

// A spatial axis. Axes that a convolution of less than three lacks come first, and are as this one.
struct ConvolvedAxis {
  int64_t small = 1;
  int64_t big = 1;
  int64_t kernel = 1;
  int64_t stride = 1;    // 1 if small is 1
  int64_t padding = 0;   // in front; that behind follows from the sizes
  int64_t dilation = 1;  // 1 if kernel is 1
};

// In elements: of images and channels, or of the small and the big tensor's channels in weight.
struct ConvolvedStrides {
  int64_t outer;
  int64_t channel;
  std::array<int64_t, kConvolvedAxes> axes;
};

// A computation has the two tensors that it reads as inputs, in the order small, big, weight, and one output, whose
// strides are row-major. None is empty. The sums of small or big may have a bias as a third input, a row of a number
// for each channel of the result, and then take memory for these as float32 as a second scratch.
struct Convolution {
  aclDataType type;
  int64_t images;
  int64_t groups;
  int64_t small_channels;  // of a group
  int64_t big_channels;    // of a group
  std::array<ConvolvedAxis, kConvolvedAxes> axes;
  ConvolvedStrides small;
  ConvolvedStrides big;
  ConvolvedStrides weight;
};

// How sums are divided among threads, and the scratch that this takes. Bits depend only on what is said to depend
// on the sizes alone. Scratch, and slots of it, begin where vectors do.
inline constexpr int64_t kConvolutionAlignment = 64;

// The second scratch, of a bias of so many channels.
[[nodiscard]] inline uint64_t BiasBytes(int64_t channels) {
  return static_cast<uint64_t>(channels + 1) * sizeof(float);
}

// The sums of the small or the big tensor: weight times patches.
struct TensorBlocks {
  static constexpr int64_t kColumns = 288;
  static constexpr int64_t kFewColumns = 512;

  // Columns of a unit, at most.
  int64_t columns;
  // Results' channels of a unit, a multiple of the rows of every vector level's tiles unless there are fewer.
  int64_t channels;
  int64_t slots;
  // The weight is packed once for all units; otherwise 0, and each packs what it needs.
  int64_t weight_bytes;
  // Of a slot: for panels of patches, for those of the weight, and for sums.
  int64_t patch_bytes;
  int64_t panel_bytes;
  int64_t sum_bytes;

  [[nodiscard]] int64_t slot_bytes() const { return patch_bytes + panel_bytes + sum_bytes; }
  [[nodiscard]] uint64_t bytes() const {
    return static_cast<uint64_t>(kConvolutionAlignment + weight_bytes + slots * slot_bytes());
  }
};

[[nodiscard]] TensorBlocks BlocksOfSmall(const Convolution& convolution, int64_t threads);
[[nodiscard]] TensorBlocks BlocksOfBig(const Convolution& convolution, int64_t threads);

// The sums of the weight: patches times the small tensor.
struct WeightBlocks {
  // Of a unit: rows of patches, channels of the small tensor, and the columns of a chunk. All depend on the sizes
  // alone.
  int64_t rows;
  int64_t channels;
  int64_t chunk;
  int64_t row_blocks;
  int64_t channel_blocks;
  int64_t chunks;
  // Sums of units that are in memory at a time.
  int64_t held;
  int64_t sum_bytes;
  // Longer sums, if there are more chunks than that.
  int64_t total_bytes;
  int64_t slots;
  int64_t panel_bytes;
  int64_t patch_bytes;

  [[nodiscard]] int64_t slot_bytes() const { return panel_bytes + patch_bytes; }
  [[nodiscard]] uint64_t bytes() const {
    return static_cast<uint64_t>(kConvolutionAlignment + total_bytes + held * sum_bytes + slots * slot_bytes());
  }
};

[[nodiscard]] WeightBlocks BlocksOfWeight(const Convolution& convolution, int64_t threads);

template <VectorLevel>
struct SumsOfSmall {
  static void Run(const Convolution& convolution, const TensorBlocks& blocks, const KernelArguments& arguments);
};
template <VectorLevel>
struct SumsOfBig {
  static void Run(const Convolution& convolution, const TensorBlocks& blocks, const KernelArguments& arguments);
};
template <VectorLevel>
struct SumsOfWeight {
  static void Run(const Convolution& convolution, const WeightBlocks& blocks, const KernelArguments& arguments);
};

}  // namespace acl_host
