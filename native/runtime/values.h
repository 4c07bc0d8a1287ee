// Checks of the values that an operator reads as positions. A bad one corrupts a device's memory or ends its context,
// so these run on the bytes that are copied to the device, before they are. Payloads may start at any byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>

namespace aclgrad {

// A value that no device may be given; the message says where it stands and what would be legal.
class InvalidValue : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws InvalidValue unless each of count 64-bit integers is at least 0 and below bound.
void CheckIndices(const void* indices, std::size_t count, int64_t bound);

// Pairs are (height, width); the dilation is 1.
struct Pooling {
  int64_t input_size[2];
  int64_t output_size[2];
  int64_t kernel_size[2];
  int64_t stride[2];
  int64_t padding[2];
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

// What RoI align makes of its boxes, rows of five float32: image, x1, y1, x2, y2.
struct RoiAlign {
  int64_t channels;
  int64_t height;
  int64_t width;
  int64_t pooled_height;
  int64_t pooled_width;
  float spatial_scale;
  int64_t sampling_ratio;
  bool aligned;
};

// Throws InvalidValue for a box that is not finite after scaling. Returns a bound on the work that the boxes ask for,
// in elementary steps: bilinear samples, cells that a separable kernel passes over, and the preparation of both axes. A
// double, for it may exceed 64 bits.
[[nodiscard]] double CountWork(const void* boxes, std::size_t count, const RoiAlign& roi_align);

}  // namespace aclgrad
