#include "value_check.h"

#include <stdexcept>
#include <string>

namespace aclgrad {
namespace {

constexpr std::size_t kBoxItems = 5;

using Bytes = std::optional<std::vector<std::byte>>;

struct Encoded {
  std::size_t size_bytes;

  std::size_t operator()(const ArgmaxCheck& check) const {
    if (check.encoding == MaskEncoding::kNone) return 0;
    const Argmax argmax{nullptr, check.item_bytes, check.batch, check.channels, check.pooling};
    const bool is_bits = check.encoding == MaskEncoding::kBits;
    return is_bits ? BitMaskWords(argmax) * sizeof(uint16_t) : argmax.count() * sizeof(int32_t);
  }

  std::size_t operator()(const VarianceCheck& check) const {
    return check.is_converted ? size_bytes / sizeof(float) * sizeof(float) : 0;
  }

  template <typename Check>
  std::size_t operator()(const Check&) const {
    return 0;
  }
};

struct Applied {
  const void* data;
  std::size_t size_bytes;

  Bytes operator()(const IndexCheck& check) const {
    CheckIndices(data, size_bytes / check.item_bytes, check.item_bytes, check.bound, check.ignored);
    return std::nullopt;
  }

  Bytes operator()(const ArgmaxCheck& check) const {
    const Argmax argmax{data, check.item_bytes, check.batch, check.channels, check.pooling};
    if (size_bytes < argmax.count() * check.item_bytes) {
      throw std::invalid_argument("the argmax has " + std::to_string(size_bytes) +
                                  " bytes, fewer than its shape takes");
    }
    if (check.encoding == MaskEncoding::kNone) {
      CheckArgmax(argmax);
      return std::nullopt;
    }
    std::vector<std::byte> encoded(EncodedBytes(check, size_bytes));
    if (check.encoding == MaskEncoding::kInt32) {
      EncodeInt32Prefix(argmax, reinterpret_cast<int32_t*>(encoded.data()));
    } else {
      EncodeBitMask(argmax, reinterpret_cast<uint16_t*>(encoded.data()));
    }
    return encoded;
  }

  Bytes operator()(const BoxCheck& check) const {
    const std::size_t count = size_bytes / (kBoxItems * check.item_bytes);
    const double work = CountWork(data, count, check.roi_align, check.item_bytes);
    if (work > check.max_work) throw TooMuchWork(work, check.max_work);
    return std::nullopt;
  }

  Bytes operator()(const BoolCheck&) const {
    CheckBools(data, size_bytes);
    return std::nullopt;
  }

  Bytes operator()(const VarianceCheck& check) const {
    const std::size_t count = size_bytes / sizeof(float);
    CheckReciprocals(data, count, check);
    if (!check.is_converted) return std::nullopt;
    std::vector<std::byte> variances(EncodedBytes(check, size_bytes));
    WriteVariances(data, count, check, variances.data());
    return variances;
  }
};

}  // namespace

TooMuchWork::TooMuchWork(double asked, double allowed)
    : std::runtime_error("ask for too much work"), work(asked), limit(allowed) {}

std::size_t EncodedBytes(const ValueCheck& check, std::size_t size_bytes) {
  return std::visit(Encoded{size_bytes}, check);
}

Bytes Apply(const ValueCheck& check, const void* data, std::size_t size_bytes) {
  return std::visit(Applied{data, size_bytes}, check);
}

}  // namespace aclgrad
