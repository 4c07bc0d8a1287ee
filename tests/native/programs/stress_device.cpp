// Calls, batches and staged tensors of many threads share the few streams of a device. Every call returns the same bits
// as when it runs alone, every staged byte is the one that was written, and nothing leaks.
#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "device.h"
#include "device_context.h"
#include "host_library.h"
#include "program.h"
#include "sample_calls.h"

namespace programs {
namespace {

constexpr int kThreads = 8;
constexpr int kRounds = 5;
constexpr int kCallsPerRound = 8;
constexpr std::size_t kStreams = 3;
constexpr int32_t kTimeoutMs = 60'000;
// More than both halves of the ring, so that the ring wraps.
constexpr std::size_t kStagedBytes = (std::size_t{9} << 20) + 5;

struct Mode {
  const char* name;
  const char* settings;  // of the host library
  std::size_t executor_limit;
  bool pass_through;
  bool is_strict = false;
};

constexpr const char* kHostPointers = R"({"threads": 2})";
constexpr const char* kCopies = R"({"threads": 2, "host_pointers": false})";

// Four executors are fewer than the different calls, so that they also evict each other.
constexpr Mode kModes[] = {
    {"host pointers", kHostPointers, 0, false},
    {"host pointers, executors kept", kHostPointers, 4, false},
    {"host pointers, executors kept, pass-through", kHostPointers, 4, true},
    {"copies", kCopies, 0, false},
    {"copies, executors kept", kCopies, 4, false},
    {"copies, executors kept, pass-through", kCopies, 4, true},
    {"strict, executors kept, pass-through", kCopies, 4, true, true},
};

// What the threads share.
struct Load {
  aclgrad::Device& device;
  const std::vector<SampleCall>& calls;
  const std::vector<Outputs>& expected;
};

// In an order that differs between threads.
void RunCalls(const Load& load, int thread, int round) {
  for (int number = 0; number < kCallsPerRound; ++number) {
    const auto step = static_cast<std::size_t>((round * kCallsPerRound + number) * 7 + thread * 3);
    const std::size_t chosen = step % load.calls.size();
    Expect(load.calls[chosen].Run(load.device, kTimeoutMs) == load.expected[chosen],
           "call " + std::to_string(chosen) + " has other bits in thread " + std::to_string(thread));
  }
}

void RunBatch(const Load& load) {
  std::vector<std::shared_ptr<OwnedCall>> owned;
  std::vector<std::shared_ptr<const aclgrad::OperatorCall>> batch;
  for (const SampleCall& call : load.calls) {
    owned.push_back(call.Make());
    batch.emplace_back(owned.back(), &owned.back()->call);
  }
  const std::atomic<bool> is_cancelled{false};
  const std::vector<std::exception_ptr> errors =
      load.device.ExecuteAll(batch, SIZE_MAX, After(kTimeoutMs), is_cancelled);
  for (std::size_t i = 0; i < owned.size(); ++i) {
    if (errors[i]) std::rethrow_exception(errors[i]);
    Expect(owned[i]->outputs == load.expected[i], "call " + std::to_string(i) + " of a batch has other bits");
  }
}

void RunStaging(const Load& load, int thread) {
  const aclgrad::Deadline deadline = After(kTimeoutMs);
  const Bytes written(kStagedBytes, static_cast<std::byte>(thread + 1));
  const aclgrad::StagingHandle staging = load.device.Stage(nullptr);
  const std::size_t tensor =
      thread % 4 == 0 ? staging->Reserve(written.size()) : staging->ReserveOnHost(written.size());
  staging->Write(tensor, 0, written.data(), written.size(), deadline);
  Bytes read(written.size());
  staging->Read(tensor, 0, read.data(), read.size(), deadline);
  Expect(read == written, "staged bytes are not those that were written");
}

void Stress(const std::string& path, const Mode& mode, int factor, const std::vector<SampleCall>& calls) {
  const auto library = OpenHost(mode.is_strict ? StrictBeside(path) : path, mode.settings);
  aclgrad::DeviceOptions options;
  options.pool_limit_bytes = std::size_t{256} << 20;
  options.stream_limit = kStreams;
  options.executor_limit = mode.executor_limit;
  options.pool_pass_through = mode.pass_through;
  aclgrad::Device device(library, 0, options);
  const std::size_t free_bytes = device.Memory().free_bytes;

  std::vector<Outputs> expected;
  for (const SampleCall& call : calls) expected.push_back(call.Run(device, kTimeoutMs));
  const Load load{device, calls, expected};
  InThreads(kThreads, [&](int thread) {
    for (int round = 0; round < kRounds * factor; ++round) {
      switch ((thread + round) % kRounds) {
        case 0:
          // The server's watch and its trim also run during calls.
          device.ReleaseFinished();
          device.CheckSteps();
          device.Trim();
          if (thread % 2 == 0) RunStaging(load, thread);
          break;
        case 1:
          RunBatch(load);
          break;
        default:
          RunCalls(load, thread, round);
      }
    }
  });

  Expect(device.stream_count() <= kStreams, "there are more streams than the limit");
  ExpectEqual("leased streams", device.leased_stream_count(), 0);
  ExpectEqual("allocated bytes", device.pool_statistics().allocated_bytes, 0);
  device.Trim();
  const aclgrad::PoolStatistics statistics = device.pool_statistics();
  ExpectEqual("reserved bytes", statistics.reserved_bytes, 0);
  ExpectEqual("requests that were out of memory", statistics.out_of_memory_count, 0);
  ExpectEqual("free bytes of the device", device.Memory().free_bytes, free_bytes);
}

// Devices that take turns on a thread of ours: each call has its device's context current, also after a device was
// closed and another one opened at its address. The library refuses a stream of another context than the thread's.
void TakeTurns(const std::string& path, const SampleCall& call) {
  const auto library = OpenHost(path, R"({"devices": 2, "host_pointers": false})");
  std::array<std::optional<aclgrad::Device>, 2> devices;
  std::optional<Outputs> expected;
  const auto run = [&](aclgrad::Device& device) {
    const Outputs outputs = call.Run(device, kTimeoutMs);
    if (!expected) expected = outputs;
    Expect(outputs == *expected, "a call on a thread of two devices has other bits");
  };
  const auto open = [&](int index) {
    devices[static_cast<std::size_t>(index)].emplace(library, index, aclgrad::DeviceOptions());
  };
  open(0);
  open(1);
  for (int round = 0; round < 3; ++round) {
    for (int turn = 0; turn < 3; ++turn) {
      run(*devices[0]);
      run(*devices[1]);
      run(*devices[1]);
    }
    // Closing and opening on this thread leaves it with another context than the other device's.
    devices[1].reset();
    run(*devices[0]);
    open(1);
    run(*devices[0]);
    run(*devices[1]);
    run(*devices[0]);
    // On another thread, this one keeps a context that is gone.
    InThreads(1, [&](int) {
      devices[0].reset();
      open(0);
    });
    run(*devices[0]);
  }
}

}  // namespace

void Run(const Arguments& given) {
  const std::vector<SampleCall> calls = ReadCalls(given.calls);
  InModes(kModes, [&](const Mode& mode) { Stress(given.library, mode, given.factor, calls); });
  InThreads(1, [&](int) {
    aclgrad::OwnThisThread();
    TakeTurns(given.library, calls.front());
  });
}

}  // namespace programs
