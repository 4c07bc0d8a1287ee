// Calls of the operator table, from a file that tests/call_file.py writes, ready to be run by a device.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "call_file.h"
#include "device.h"
#include "program.h"

namespace programs {

using Bytes = std::vector<std::byte>;
using Outputs = std::vector<Bytes>;

inline aclgrad::Deadline After(int32_t timeout_ms) {
  return aclgrad::Deadline::clock::now() + std::chrono::milliseconds(timeout_ms);
}

// Waits until all work has ended, abandoned work included; none of it may have left anything behind.
inline void AwaitIdle(aclgrad::Device& device) {
  const aclgrad::Deadline limit = After(60'000);
  while (device.leased_stream_count() != 0 || device.abandoned_count() != 0) {
    Expect(aclgrad::Deadline::clock::now() < limit, "abandoned work did not come back");
    device.Trim();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  device.Trim();
  ExpectEqual("allocated bytes", device.pool_statistics().allocated_bytes, 0);
  ExpectEqual("reserved bytes", device.pool_statistics().reserved_bytes, 0);
}

// A call that owns its outputs. It is shared, because a device keeps an abandoned call.
struct OwnedCall {
  aclgrad::OperatorCall call;
  Outputs outputs;
};

// Must outlive every device, because devices read its inputs.
class SampleCall {
 public:
  explicit SampleCall(call_file::Call recorded) : recorded_(std::move(recorded)) {}

  [[nodiscard]] std::shared_ptr<OwnedCall> Make() const {
    auto owned = std::make_shared<OwnedCall>();
    aclgrad::OperatorCall& call = owned->call;
    std::vector<aclgrad::InputForm> inputs;
    for (const call_file::Tensor& input : recorded_.inputs) {
      inputs.push_back({input.shape, DataType(input), input.data.size() < input.size_bytes});
      aclgrad::InputBytes& bytes = call.inputs.emplace_back();
      if (input.dtype == call_file::kAbsent) {
        bytes = aclgrad::Absent{};
      } else if (!input.data.empty()) {
        bytes = aclgrad::HostBytes{input.data.data(), input.data.size()};
      }
    }
    std::vector<aclgrad::OutputForm> outputs;
    for (const call_file::Tensor& output : recorded_.outputs) {
      if (output.dtype == call_file::kAbsent) {
        owned->outputs.emplace_back();
        outputs.push_back({{}, ACL_FLOAT, aclgrad::OutputUse::kNull});
        call.outputs.push_back({0, nullptr});
        continue;
      }
      // NaN, so that the test sees an element that the operator does not write.
      Bytes& bytes = owned->outputs.emplace_back(output.size_bytes, std::byte{0xFF});
      outputs.push_back({output.shape, DataType(output)});
      call.outputs.push_back({bytes.size(), bytes.data()});
    }
    std::vector<aclgrad::Attribute> attributes;
    for (const call_file::Attribute& each : recorded_.attributes) {
      attributes.push_back(std::visit([](const auto& value) -> aclgrad::Attribute { return value; }, each));
    }
    call.form = std::make_shared<aclgrad::CallForm>(recorded_.symbol, std::move(inputs), std::move(attributes),
                                                    std::move(outputs), recorded_.is_spatial, false);
    return owned;
  }

  [[nodiscard]] Outputs Run(aclgrad::Device& device, int32_t timeout_ms) const {
    const std::shared_ptr<OwnedCall> owned = Make();
    device.Execute({owned, &owned->call}, After(timeout_ms));
    return owned->outputs;
  }

 private:
  [[nodiscard]] static aclDataType DataType(const call_file::Tensor& tensor) {
    return static_cast<aclDataType>(tensor.dtype);
  }

  call_file::Call recorded_;
};

// So many steps on each lane. If those are several, each is said to need the one before, and writes to the lane's
// arena.
inline aclgrad::Group GroupOf(const std::vector<std::shared_ptr<OwnedCall>>& calls, std::size_t lane_steps) {
  aclgrad::Group group;
  for (const std::shared_ptr<OwnedCall>& owned : calls) {
    const std::size_t step = group.steps.size();
    const bool is_first = step % lane_steps == 0;
    if (is_first) group.lanes.emplace_back();
    aclgrad::Lane& lane = group.lanes.back();
    lane.steps.push_back(step);
    for (aclgrad::OutputBytes& output : owned->call.outputs) {
      if (lane_steps == 1) break;
      output.target = aclgrad::Place{lane.arena_bytes, output.size_bytes};
      lane.arena_bytes += aclgrad::PaddedBytes(output.size_bytes);
    }
    group.steps.push_back({{owned, &owned->call}, is_first ? std::vector<std::size_t>{} : std::vector{step - 1}, {}});
  }
  return group;
}

inline std::vector<SampleCall> ReadCalls(const std::string& path) {
  std::vector<SampleCall> calls;
  for (call_file::Call& call : call_file::Reader(path).ReadAll()) calls.emplace_back(std::move(call));
  return calls;
}

}  // namespace programs
