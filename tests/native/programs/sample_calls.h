// Calls of the operator table, from a file that tests/call_file.py writes, ready to be run by a device.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "call_file.h"
#include "device.h"

namespace programs {

using Bytes = std::vector<std::byte>;

inline aclgrad::Deadline After(int32_t timeout_ms) {
  return aclgrad::Deadline::clock::now() + std::chrono::milliseconds(timeout_ms);
}

// A call that owns its output. It is shared, because a device keeps an abandoned call.
struct OwnedCall {
  aclgrad::OperatorCall call;
  Bytes output;
};

// Must outlive every device, because devices read its inputs.
class SampleCall {
 public:
  explicit SampleCall(call_file::Call recorded) : recorded_(std::move(recorded)) {}

  [[nodiscard]] std::shared_ptr<OwnedCall> Make() const {
    auto owned = std::make_shared<OwnedCall>();
    // NaN, so that the test sees an element that the operator does not write.
    owned->output.assign(recorded_.output.size_bytes, std::byte{0xFF});
    aclgrad::OperatorCall& call = owned->call;
    call = {recorded_.symbol,
            {},
            recorded_.attributes,
            {recorded_.output.shape, DataType(recorded_.output), owned->output.data(), owned->output.size()}};
    for (const call_file::Tensor& input : recorded_.inputs) {
      call.inputs.push_back({input.shape, DataType(input), input.data.size() < input.size_bytes});
      if (!input.data.empty()) call.inputs.back().values = aclgrad::HostBytes{input.data.data(), input.data.size()};
    }
    return owned;
  }

  [[nodiscard]] Bytes Run(aclgrad::Device& device, int32_t timeout_ms) const {
    const std::shared_ptr<OwnedCall> owned = Make();
    device.Execute({owned, &owned->call}, After(timeout_ms));
    return owned->output;
  }

 private:
  [[nodiscard]] static aclDataType DataType(const call_file::Tensor& tensor) {
    return static_cast<aclDataType>(tensor.dtype);
  }

  call_file::Call recorded_;
};

inline std::vector<SampleCall> ReadCalls(const std::string& path) {
  std::vector<SampleCall> calls;
  for (call_file::Call& call : call_file::Reader(path).ReadAll()) calls.emplace_back(std::move(call));
  return calls;
}

}  // namespace programs
