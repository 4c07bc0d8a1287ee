// Small calls of all five operators, with values that are the same in every run.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "device.h"

namespace programs {

using Bytes = std::vector<std::byte>;
using Shape = std::vector<int64_t>;

inline aclgrad::Deadline After(int32_t timeout_ms) {
  return aclgrad::Deadline::clock::now() + std::chrono::milliseconds(timeout_ms);
}

// A call that owns its output. It is shared, because a device holds on to an abandoned call.
struct OwnedCall {
  aclgrad::OperatorCall call;
  Bytes output;
};

class SampleCall {
 public:
  SampleCall(std::string symbol, Shape output_shape, std::vector<aclgrad::Attribute> attributes = {})
      : symbol_(std::move(symbol)), output_shape_(std::move(output_shape)), attributes_(std::move(attributes)) {}

  // An input of which only the shape matters.
  SampleCall&& Unsent(Shape shape) && {
    inputs_.push_back({std::move(shape), ACL_FLOAT, false, {}});
    return std::move(*this);
  }

  // The values fill the input, or its beginning.
  template <typename T>
  SampleCall&& Sent(Shape shape, aclDataType dtype, const std::vector<T>& values, bool is_prefix = false) && {
    Bytes data(values.size() * sizeof(T));
    std::memcpy(data.data(), values.data(), data.size());
    inputs_.push_back({std::move(shape), dtype, is_prefix, std::move(data)});
    return std::move(*this);
  }

  [[nodiscard]] std::shared_ptr<OwnedCall> Make() const {
    auto owned = std::make_shared<OwnedCall>();
    // Not a number: an element that the operator leaves out is seen.
    owned->output.assign(Count(output_shape_) * sizeof(float), std::byte{0xFF});
    aclgrad::OperatorCall& call = owned->call;
    call = {symbol_, {}, attributes_, {output_shape_, ACL_FLOAT, owned->output.data(), owned->output.size()}};
    for (const Input& input : inputs_) {
      call.inputs.push_back({input.shape, input.dtype, input.is_prefix});
      if (!input.data.empty()) call.inputs.back().values = aclgrad::HostBytes{input.data.data(), input.data.size()};
    }
    return owned;
  }

  [[nodiscard]] Bytes Run(aclgrad::Device& device, int32_t timeout_ms) const {
    const std::shared_ptr<OwnedCall> owned = Make();
    device.Execute({owned, &owned->call}, After(timeout_ms));
    return owned->output;
  }

  [[nodiscard]] static std::size_t Count(const Shape& shape) {
    std::size_t count = 1;
    for (const int64_t extent : shape) count *= static_cast<std::size_t>(extent);
    return count;
  }

 private:
  struct Input {
    Shape shape;
    aclDataType dtype;
    bool is_prefix;
    Bytes data;
  };

  std::string symbol_;
  Shape output_shape_;
  std::vector<aclgrad::Attribute> attributes_;
  std::vector<Input> inputs_;
};

// One call of each operator, for planes of side by side + 2 cells. The inputs are to outlive every device.
inline std::vector<SampleCall> SampleCalls(int64_t side) {
  std::mt19937 generator(static_cast<uint32_t>(side));
  const auto floats = [&](const Shape& shape) {
    std::vector<float> values(SampleCall::Count(shape));
    std::generate(values.begin(), values.end(), [&] { return static_cast<float>(generator() % 2000) / 7.0F - 99.0F; });
    return values;
  };
  const int64_t width = side + 2;
  const Shape planes = {2, 3, 2 * side, 2 * width};
  const Shape pooled = {2, 3, side, width};
  const Shape padded = {2, 3, 2 * side + 3, 2 * width + 3};
  const Shape bins = {2, 3, 2, 3};
  // Windows of 2x2 cells: each chose its first cell.
  std::vector<int32_t> chosen;
  for (int64_t window = 0; window < 2 * 3 * side * width; ++window) {
    const int64_t cell = window % (side * width);
    chosen.push_back(static_cast<int32_t>(cell / width * 2 * 2 * width + cell % width * 2));
  }
  const Shape mask = {2, 3, 4, ((side * width + 15) / 16 + 1) * 32};
  std::vector<int64_t> indices(SampleCall::Count(pooled));
  std::generate(indices.begin(), indices.end(), [&] { return static_cast<int64_t>(generator()) % (2 * side * width); });
  const auto extent = static_cast<float>(side);
  const std::vector<float> boxes = {0, 0.5F, 1, extent, extent + 1, 1, 1, 0, 1.5F * extent, extent};

  std::vector<SampleCall> calls;
  calls.push_back(
      SampleCall("aclnnAdaptiveAvgPool2dBackward", planes).Sent(pooled, ACL_FLOAT, floats(pooled)).Unsent(planes));
  calls.push_back(SampleCall("aclnnMaxUnpool3dBackward", {2, 3, 1, side, width},
                             {Shape{1, side, 2 * width}, Shape{1, 1, 2}, Shape{0, 0, 0}})
                      .Sent({2, 3, 1, side, 2 * width}, ACL_FLOAT, floats({2, 3, 1, side, 2 * width}))
                      .Unsent({2, 3, 1, side, width})
                      .Sent({2, 3, 1, side, width}, ACL_INT64, indices));
  calls.push_back(SampleCall("aclnnReplicationPad2dBackward", planes, {Shape{1, 2, 2, 1}})
                      .Sent(padded, ACL_FLOAT, floats(padded))
                      .Unsent(planes));
  calls.push_back(
      SampleCall("aclnnMaxPool2dWithMaskBackward", planes, {Shape{2, 2}, Shape{2, 2}, Shape{0, 0}, Shape{1, 1}, false})
          .Sent(pooled, ACL_FLOAT, floats(pooled))
          .Unsent(planes)
          .Sent(mask, ACL_INT8, chosen, true));
  calls.push_back(SampleCall("aclnnRoiAlignV2Backward", planes, {planes, int64_t{2}, int64_t{3}, 1.0, int64_t{2}, true})
                      .Sent(bins, ACL_FLOAT, floats(bins))
                      .Sent({2, 5}, ACL_FLOAT, boxes));
  return calls;
}

// The same for planes of several sides.
inline std::vector<SampleCall> SampleCalls(std::initializer_list<int64_t> sides) {
  std::vector<SampleCall> calls;
  for (const int64_t side : sides) {
    for (SampleCall& call : SampleCalls(side)) calls.push_back(std::move(call));
  }
  return calls;
}

}  // namespace programs
