// Calls that end before the device's work does: their resources are returned only when the device is done. A lost
// device releases all callers.
#include <atomic>
#include <chrono>
#include <thread>

#include "error.h"
#include "host_library.h"
#include "program.h"
#include "sample_calls.h"

namespace programs {
namespace {

using aclgrad::AclError;
using aclgrad::Device;
using aclgrad::DeviceOptions;
using aclgrad::FaultClass;

constexpr int kThreads = 6;
constexpr int32_t kShortMs = 30;
constexpr int32_t kBegunMs = 500;  // enough for a call to begin on a busy machine
constexpr int32_t kLongMs = 60'000;
constexpr int kTimeoutCode = 507046;

DeviceOptions Options(bool keep_executors) {
  DeviceOptions options;
  options.pool_limit_bytes = std::size_t{64} << 20;
  options.stream_limit = 3;
  options.executor_limit = keep_executors ? 8 : 0;
  return options;
}

// The bits of the calls on a device without faults.
std::vector<Outputs> Expected(const std::string& path, const std::vector<SampleCall>& calls) {
  Device device(OpenHost(path, "{}"), 0, Options(false));
  std::vector<Outputs> expected;
  for (const SampleCall& call : calls) expected.push_back(call.Run(device, kLongMs));
  return expected;
}

// On a busy machine a call may not even begin in its time.
void ExpectLate(const AclError& error) {
  if (error.fault() == FaultClass::kNotBegun) return;
  ExpectEqual("the code of a late call", static_cast<uint64_t>(error.code()), kTimeoutCode);
}

void AwaitReturn(Device& device) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(kLongMs);
  while (device.leased_stream_count() != 0) {
    Expect(std::chrono::steady_clock::now() < limit, "streams that hung did not come back");
    device.Trim();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// Launches hang for longer than their calls wait. Each call times out or is correct, and the device recovers.
void TimeOutAndRecover(const std::string& path, const std::vector<SampleCall>& calls, const char* host_pointers,
                       bool keep_executors, int factor) {
  const std::vector<Outputs> expected = Expected(path, calls);
  const std::string faults = R"([{"kind": "hang", "at": 4, "count": 9, "duration_ms": 80}])";
  Device device(OpenHost(path, R"({"host_pointers": )" + std::string(host_pointers) + R"(, "faults": )" + faults + "}"),
                0, Options(keep_executors));
  std::atomic<uint64_t> late{0};
  InThreads(kThreads, [&](int thread) {
    for (int number = 0; number < 20 * factor; ++number) {
      const auto chosen = static_cast<std::size_t>(thread + number) % calls.size();
      try {
        Expect(calls[chosen].Run(device, kShortMs) == expected[chosen], "a call beside late ones has other bits");
      } catch (const AclError& error) {
        ExpectLate(error);
        ++late;
      }
    }
  });
  Expect(late != 0, "no call was late, though launches hung");
  AwaitReturn(device);
  InThreads(kThreads, [&](int) {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      Expect(calls[i].Run(device, kLongMs) == expected[i], "a call after late ones has other bits");
    }
  });
  device.Trim();
  ExpectEqual("allocated bytes", device.pool_statistics().allocated_bytes, 0);
  ExpectEqual("reserved bytes", device.pool_statistics().reserved_bytes, 0);
}

// A call is abandoned when its device closes: the device waits for the work, which writes to the call's memory.
void EndWithLateCalls(const std::string& path, const std::vector<SampleCall>& calls) {
  Device device(OpenHost(path, R"({"faults": [{"kind": "hang", "at": 1, "count": 3, "duration_ms": 1500}]})"), 0,
                Options(false));
  InThreads(3, [&](int thread) {
    try {
      static_cast<void>(calls[static_cast<std::size_t>(thread)].Run(device, kBegunMs));
      Expect(false, "a call that hangs for longer than its time ended well");
    } catch (const AclError& error) {
      ExpectEqual("the code of a late call", static_cast<uint64_t>(error.code()), kTimeoutCode);
    }
  });
  ExpectEqual("streams of late calls", device.leased_stream_count(), 3);
}

// One launch hangs for ever and a later one loses the device: every thread gets the error, and the device still closes.
void LoseTheDevice(const std::string& path, const std::vector<SampleCall>& calls, bool keep_executors) {
  const std::string faults = R"([{"kind": "hang", "at": 2}, {"kind": "launch_error", "at": 40}])";
  Device device(OpenHost(path, R"({"faults": )" + faults + "}"), 0, Options(keep_executors));
  InThreads(kThreads, [&](int thread) {
    for (std::size_t number = 0;; ++number) {
      try {
        static_cast<void>(calls[number % calls.size()].Run(device, thread == 0 ? kShortMs : 2000));
      } catch (const AclError& error) {
        if (error.fault() == FaultClass::kDeviceLost) return;
        ExpectLate(error);
      }
    }
  });
  try {
    static_cast<void>(calls[0].Run(device, kLongMs));
    Expect(false, "a lost device took a call");
  } catch (const AclError& error) {
    Expect(error.fault() == FaultClass::kDeviceLost, std::string("a lost device answers ") + error.what());
  }
}

}  // namespace

void Run(const Arguments& given) {
  const std::vector<SampleCall> calls = ReadCalls(given.calls);
  for (const bool keep_executors : {false, true}) {
    TimeOutAndRecover(given.library, calls, "true", keep_executors, given.factor);
    TimeOutAndRecover(given.library, calls, "false", keep_executors, given.factor);
    LoseTheDevice(given.library, calls, keep_executors);
  }
  EndWithLateCalls(given.library, calls);
}

}  // namespace programs
