// Calls, groups and staged tensors of many threads share the few streams of a device. Every call returns the same bits
// as when it runs alone, every staged byte is the one that was written, and nothing leaks, even if calls end before the
// device's work does.
#include <atomic>
#include <cstdint>

#include "device.h"
#include "error.h"
#include "host_library.h"
#include "program.h"
#include "sample_calls.h"

namespace programs {
namespace {

using aclgrad::AclError;
using aclgrad::Device;
using aclgrad::FaultClass;

constexpr int kThreads = 6;
constexpr int kRounds = 5;
constexpr int kCallsPerRound = 8;
constexpr std::size_t kStreams = 3;
constexpr int32_t kLongMs = 60'000;
constexpr int32_t kShortMs = 30;
constexpr int32_t kBegunMs = 500;  // enough for a call to begin on a busy machine
constexpr int kTimeoutCode = 507046;
// More than both halves of the ring, so that the ring wraps.
constexpr std::size_t kStagedBytes = (std::size_t{9} << 20) + 5;

struct Mode {
  const char* name;
  const char* settings;  // of the host library
  std::size_t executor_limit;
  bool pass_through;
  bool is_strict = false;
  int32_t timeout_ms = kLongMs;
};

constexpr const char* kHostPointers = R"({"threads": 2})";
constexpr const char* kCopies = R"({"threads": 2, "host_pointers": false})";
// Launches hang for longer than their calls wait.
constexpr const char* kLate = R"({"faults": [{"kind": "hang", "at": 4, "count": 9, "duration_ms": 80}]})";
constexpr const char* kLateCopies =
    R"({"host_pointers": false, "faults": [{"kind": "hang", "at": 4, "count": 9, "duration_ms": 80}]})";

// Four executors are fewer than the different calls, so that they also evict each other.
constexpr Mode kModes[] = {
    {"host pointers", kHostPointers, 0, false},
    {"host pointers, executors kept, pass-through", kHostPointers, 4, true},
    {"copies, executors kept", kCopies, 4, false},
    {"strict, executors kept, pass-through", kCopies, 4, true, true},
    {"late, host pointers, executors kept", kLate, 4, false, false, kShortMs},
    {"late, copies", kLateCopies, 0, false, false, kShortMs},
};

// What the threads share.
struct Load {
  Device& device;
  const std::vector<SampleCall>& calls;
  const std::vector<Outputs>& expected;
  const int32_t timeout_ms;
  std::atomic<int> late{0};
};

// On a busy machine a call may not even begin in its time.
void ExpectLate(const AclError& error) {
  if (error.fault() == FaultClass::kNotBegun) return;
  ExpectEqual("the code of a late call", static_cast<uint64_t>(error.code()), kTimeoutCode);
}

// Runs work that may be late if the mode's calls are.
template <typename Work>
void InTime(Load& load, const Work& work) {
  try {
    work();
  } catch (const AclError& error) {
    if (load.timeout_ms == kLongMs) throw;
    ExpectLate(error);
    ++load.late;
  }
}

// In an order that differs between threads.
void RunCalls(Load& load, int thread, int round) {
  for (int number = 0; number < kCallsPerRound; ++number) {
    const auto step = static_cast<std::size_t>((round * kCallsPerRound + number) * 7 + thread * 3);
    const std::size_t chosen = step % load.calls.size();
    InTime(load, [&] {
      Expect(load.calls[chosen].Run(load.device, load.timeout_ms) == load.expected[chosen],
             "call " + std::to_string(chosen) + " has other bits in thread " + std::to_string(thread));
    });
  }
}

// Some lanes have several steps.
void RunGroup(Load& load, std::size_t lane_steps) {
  std::vector<std::shared_ptr<OwnedCall>> owned;
  for (const SampleCall& call : load.calls) owned.push_back(call.Make());
  aclgrad::Group group = GroupOf(owned, lane_steps);
  const std::atomic<bool> is_cancelled{false};
  load.device.ExecuteGroup(group, SIZE_MAX, After(load.timeout_ms), After(load.timeout_ms), is_cancelled);
  for (std::size_t i = 0; i < owned.size(); ++i) {
    InTime(load, [&] {
      if (group.steps[i].error) std::rethrow_exception(group.steps[i].error);
      Expect(owned[i]->outputs == load.expected[i], "step " + std::to_string(i) + " of a group has other bits");
    });
  }
}

void RunStaging(const Load& load, int thread) {
  const aclgrad::Deadline deadline = After(kLongMs);
  const Bytes written(kStagedBytes, static_cast<std::byte>(thread + 1));
  using Memory = aclgrad::Staging::Memory;
  const aclgrad::StagingHandle staging =
      load.device.Stage(written.size(), thread % 4 == 0 ? Memory::kDevice : Memory::kHost, nullptr);
  staging->Write(0, written.data(), written.size(), deadline);
  Bytes read(written.size());
  staging->Read(0, read.data(), read.size(), deadline);
  Expect(read == written, "staged bytes are not those that were written");
}

void RunRound(Load& load, int thread, int round) {
  switch ((thread + round) % kRounds) {
    case 0:
      // The server's watch and its trim also run during calls.
      load.device.ReleaseFinished();
      load.device.CheckSteps();
      load.device.Trim();
      if (thread % 2 == 0) RunStaging(load, thread);
      break;
    case 1:
      RunGroup(load, 1 + static_cast<std::size_t>(round) % 4);
      break;
    default:
      RunCalls(load, thread, round);
  }
}

void Stress(const std::string& path, const Mode& mode, int factor, const std::vector<SampleCall>& calls,
            const std::vector<Outputs>& expected) {
  aclgrad::DeviceOptions options;
  options.pool_limit_bytes = std::size_t{256} << 20;
  options.stream_limit = kStreams;
  options.executor_limit = mode.executor_limit;
  options.pool_pass_through = mode.pass_through;
  Device device(OpenHost(mode.is_strict ? StrictBeside(path) : path, mode.settings), 0, options);
  const std::size_t free_bytes = device.Memory().free_bytes;
  Load load{device, calls, expected, mode.timeout_ms};
  InThreads(kThreads, [&](int thread) {
    for (int round = 0; round < kRounds * factor; ++round) RunRound(load, thread, round);
  });
  const bool are_late = mode.timeout_ms != kLongMs;
  Expect((load.late != 0) == are_late, "launches hung, and no call was late");
  if (are_late) {
    AwaitIdle(device);
    Load after{device, calls, expected, kLongMs};
    InThreads(kThreads, [&](int) { RunGroup(after, 1); });
  }

  Expect(device.stream_count() <= kStreams, "there are more streams than the limit");
  AwaitIdle(device);
  ExpectEqual("requests that were out of memory", device.pool_statistics().out_of_memory_count, 0);
  ExpectEqual("free bytes of the device", device.Memory().free_bytes, free_bytes);
}

// A call is abandoned when its device closes: the device waits for the work, which writes to the call's memory.
void CloseBesideLateCalls(const std::string& path, const std::vector<SampleCall>& calls) {
  Device device(OpenHost(path, R"({"faults": [{"kind": "hang", "at": 1, "count": 3, "duration_ms": 1500}]})"), 0, {});
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
void LoseTheDevice(const std::string& path, const std::vector<SampleCall>& calls, std::size_t executor_limit) {
  aclgrad::DeviceOptions options;
  options.stream_limit = kStreams;
  options.executor_limit = executor_limit;
  const char* settings = R"({"faults": [{"kind": "hang", "at": 2}, {"kind": "launch_error", "at": 40}]})";
  Device device(OpenHost(path, settings), 0, options);
  InThreads(kThreads, [&](int thread) {
    for (std::size_t number = 0;; ++number) {
      try {
        static_cast<void>(calls[number % calls.size()].Run(device, thread == 0 ? kShortMs : kBegunMs));
      } catch (const AclError& error) {
        if (error.fault() == FaultClass::kDeviceLost) return;
        ExpectLate(error);
      }
    }
  });
}

}  // namespace

void Run(const Arguments& given) {
  const std::vector<SampleCall> calls = ReadCalls(given.calls);
  std::vector<Outputs> expected;
  {
    Device device(OpenHost(given.library, "{}"), 0, {});
    for (const SampleCall& call : calls) expected.push_back(call.Run(device, kLongMs));
  }
  InModes(kModes, [&](const Mode& mode) { Stress(given.library, mode, given.factor, calls, expected); });
  for (const std::size_t executor_limit : {0, 8}) LoseTheDevice(given.library, calls, executor_limit);
  CloseBesideLateCalls(given.library, calls);
}

}  // namespace programs
