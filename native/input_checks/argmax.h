// Argmax positions of max pooling: checked against their windows, and written in the layouts that devices read.
#pragma once

#include <cstddef>
#include <cstdint>

namespace aclgrad {

// Pairs are (height, width).
struct Pooling {
  int64_t input_size[2];
  int64_t output_size[2];
  int64_t kernel_size[2];
  int64_t stride[2];
  int64_t padding[2];
  int64_t dilation[2];
};

// An argmax of shape (batch, channels, output_size): positions in planes of input_size, of 4 or 8 bytes each.
struct Argmax {
  const void* data;
  std::size_t item_bytes;
  int64_t batch;
  int64_t channels;
  Pooling pooling;

  [[nodiscard]] std::size_t count() const;
};

// Each throws InvalidValue unless every position lies in its own window. A plane has less than 2^31 cells.
void CheckArgmax(const Argmax& argmax);
// Writes the positions as int32: what Atlas A2 and A3 read at the start of a mask.
void EncodeInt32Prefix(const Argmax& argmax, int32_t* prefix);
// Sets the bits that the Atlas training products read, in words that are zero before. Words are of shape
// (batch, ceil(channels / 16), kernel cells, ceil(output cells / 16) + 1, 16).
void EncodeBitMask(const Argmax& argmax, uint16_t* words);
[[nodiscard]] std::size_t BitMaskWords(const Argmax& argmax);

}  // namespace aclgrad
