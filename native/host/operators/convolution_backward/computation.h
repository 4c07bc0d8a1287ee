// The gradients of convolutions.
//
// A convolution has a small and a big tensor: its result and its input, or those of a transposed convolution in turn.
// Position q of the small one touches the positions q * stride - padding + k * dilation of the big one, for each tap k
// of the kernel. Each of the three gradients is a sum over what the other two tensors hold:
//
//   of big     big[n, c, y]    = sum over o and k, with y = q * s - p + k * d, of small[n, o, q] * weight[o, c, k]
//   of small   small[n, o, q]  = sum over c and k of big[n, c, q * s - p + k * d] * weight[o, c, k]
//   of weight  weight[o, c, k] = sum over n and q of small[n, o, q] * big[n, c, q * s - p + k * d]
//
// Positions outside of the big tensor hold zeros.
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
// strides are row-major. None is empty.
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

template <VectorLevel>
struct GradientOfBig {
  static void Run(const Convolution& convolution, const KernelArguments& arguments);
};
template <VectorLevel>
struct GradientOfSmall {
  static void Run(const Convolution& convolution, const KernelArguments& arguments);
};
template <VectorLevel>
struct GradientOfWeight {
  static void Run(const Convolution& convolution, const KernelArguments& arguments);
};

// Of any of the three with so many threads.
[[nodiscard]] uint64_t ScratchBytesOf(const Convolution& convolution, int64_t threads);

}  // namespace acl_host
