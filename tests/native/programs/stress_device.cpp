// Many threads share the few streams of a device. Every call returns the same bits as when it runs alone, and nothing
// leaks.
#include "expect.h"
#include "host_library.h"
#include "sample_calls.h"

namespace programs {
namespace {

constexpr int kThreads = 8;
constexpr int kCallsPerThread = 60;
constexpr std::size_t kStreams = 3;
constexpr int32_t kTimeoutMs = 60'000;

struct Mode {
  const char* name;
  const char* settings;  // of the host library
  std::size_t executor_limit;
  bool pass_through;
};

constexpr const char* kHostPointers = R"({"threads": 2})";
constexpr const char* kCopies = R"({"threads": 2, "host_pointers": false})";
constexpr const char* kStrict = R"({"threads": 2, "host_pointers": false, "strict": true})";

// Four executors are fewer than the different calls, so that they also evict each other.
constexpr Mode kModes[] = {
    {"host pointers", kHostPointers, 0, false},
    {"host pointers, executors kept", kHostPointers, 4, false},
    {"host pointers, executors kept, pass-through", kHostPointers, 4, true},
    {"copies", kCopies, 0, false},
    {"copies, executors kept", kCopies, 4, false},
    {"copies, executors kept, pass-through", kCopies, 4, true},
    {"strict, executors kept, pass-through", kStrict, 4, true},
};

// The order of a thread's calls, which differs between threads.
std::size_t Choose(std::size_t count, int thread, int call) {
  return (static_cast<std::size_t>(call) * 7 + static_cast<std::size_t>(thread) * 3) % count;
}

void Run(const std::string& path, const Mode& mode, int factor, const std::vector<SampleCall>& calls) {
  const auto library = OpenHost(path, mode.settings);
  aclgrad::DeviceOptions options;
  options.pool_limit_bytes = std::size_t{64} << 20;
  options.stream_limit = kStreams;
  options.executor_limit = mode.executor_limit;
  options.pool_pass_through = mode.pass_through;
  aclgrad::Device device(library, 0, options);
  const std::size_t free_bytes = device.Memory().free_bytes;

  std::vector<Bytes> expected;
  for (const SampleCall& call : calls) expected.push_back(call.Run(device, kTimeoutMs));
  InThreads(kThreads, [&](int thread) {
    for (int number = 0; number < kCallsPerThread * factor; ++number) {
      const std::size_t chosen = Choose(calls.size(), thread, number);
      Expect(calls[chosen].Run(device, kTimeoutMs) == expected[chosen],
             "call " + std::to_string(chosen) + " has other bits in thread " + std::to_string(thread));
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

}  // namespace
}  // namespace programs

int main(int argc, char** argv) {
  return programs::RunProgram(argc, argv, [&](const std::string& path, int factor) {
    const std::vector<programs::SampleCall> calls = programs::ReadCalls(argv[3]);
    for (const programs::Mode& mode : programs::kModes) {
      try {
        programs::Run(path, mode, factor, calls);
      } catch (const std::exception& error) {
        throw std::runtime_error(std::string(mode.name) + ": " + error.what());
      }
    }
  });
}
