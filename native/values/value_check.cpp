#include "value_check.h"

#include <stdexcept>
#include <string>

#include "indices.h"

namespace aclgrad {
namespace {

constexpr std::size_t kBoxBytes = 5 * sizeof(float);

using Bytes = std::optional<std::vector<std::byte>>;

struct Applied {
  const void* data;
  std::size_t size_bytes;

  Bytes operator()(const IndexCheck& check) const {
    CheckIndices(data, size_bytes / check.item_bytes, check.item_bytes, check.bound);
    return std::nullopt;
  }

  Bytes operator()(const ArgmaxCheck& check) const {
    const Argmax argmax{data, check.item_bytes, check.batch, check.channels, check.pooling};
    if (size_bytes < argmax.count() * check.item_bytes) {
      throw std::invalid_argument("the argmax has " + std::to_string(size_bytes) +
                                  " bytes, fewer than its shape takes");
    }
    switch (check.encoding) {
      case MaskEncoding::kNone:
        CheckArgmax(argmax);
        return std::nullopt;
      case MaskEncoding::kInt32: {
        std::vector<std::byte> prefix(argmax.count() * sizeof(int32_t));
        EncodeInt32Prefix(argmax, reinterpret_cast<int32_t*>(prefix.data()));
        return prefix;
      }
      case MaskEncoding::kBits:
        break;
    }
    std::vector<std::byte> words(BitMaskWords(argmax) * sizeof(uint16_t));
    EncodeBitMask(argmax, reinterpret_cast<uint16_t*>(words.data()));
    return words;
  }

  Bytes operator()(const BoxCheck& check) const {
    const double work = CountWork(data, size_bytes / kBoxBytes, check.roi_align);
    if (work > check.max_work) throw TooMuchWork(work, check.max_work);
    return std::nullopt;
  }

  Bytes operator()(const VarianceCheck& check) const {
    const std::size_t count = size_bytes / sizeof(float);
    CheckReciprocals(data, count, check);
    if (!check.is_converted) return std::nullopt;
    std::vector<std::byte> variances(count * sizeof(float));
    WriteVariances(data, count, check, variances.data());
    return variances;
  }
};

}  // namespace

TooMuchWork::TooMuchWork(double asked, double allowed)
    : std::runtime_error("ask for too much work"), work(asked), limit(allowed) {}

Bytes Apply(const ValueCheck& check, const void* data, std::size_t size_bytes) {
  return std::visit(Applied{data, size_bytes}, check);
}

}  // namespace aclgrad
