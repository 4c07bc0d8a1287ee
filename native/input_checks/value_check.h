// The checks of an input's values before a device reads them, and the bytes that the device then reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <variant>
#include <vector>

#include "argmax.h"
#include "boxes.h"
#include "values.h"

namespace aclgrad {

// Every value is an index below the bound, or the one that is ignored.
struct IndexCheck {
  int64_t bound = 0;
  std::size_t item_bytes = sizeof(int64_t);
  std::optional<int64_t> ignored;
};

enum class MaskEncoding { kNone, kInt32, kBits };

// Every value is a position inside its own pooling window; the device reads them as they are or encoded as a mask.
struct ArgmaxCheck {
  Pooling pooling;
  std::size_t item_bytes;
  int64_t batch;
  int64_t channels;
  MaskEncoding encoding;
};

// Every box is finite after scaling and has an output, and all of them together ask for at most max_work.
struct BoxCheck {
  RoiAlign roi_align;
  double max_work;
  std::size_t item_bytes = sizeof(float);
};

// Every byte is 0 or 1.
struct BoolCheck {};

using ValueCheck = std::variant<IndexCheck, ArgmaxCheck, BoxCheck, VarianceCheck, BoolCheck>;

// An input asks for more work than its check allows.
class TooMuchWork : public std::runtime_error {
 public:
  TooMuchWork(double work, double limit);
  const double work;
  const double limit;
};

// The bytes that Apply returns for an input of this size: 0 if the device reads the data as it is.
[[nodiscard]] std::size_t EncodedBytes(const ValueCheck& check, std::size_t size_bytes);

// Throws InvalidValue or TooMuchWork. Returns the encoded bytes if the device reads another encoding than the data's.
[[nodiscard]] std::optional<std::vector<std::byte>> Apply(const ValueCheck& check, const void* data,
                                                          std::size_t size_bytes);

}  // namespace aclgrad
