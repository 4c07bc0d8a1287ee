// Batches and staged tensors of many threads share the few streams of a device. Every call returns the same bits as
// when it runs alone, every staged byte is the one that was written, and nothing leaks.
#include <atomic>
#include <cstdint>

#include "expect.h"
#include "host_library.h"
#include "sample_calls.h"

namespace programs {
namespace {

constexpr int kThreads = 6;
constexpr int kRounds = 12;
constexpr int32_t kTimeoutMs = 60'000;
// More than both halves of the ring, so that the ring wraps.
constexpr std::size_t kStagedBytes = (std::size_t{9} << 20) + 5;

constexpr const char* kModes[] = {
    R"({"threads": 2})",
    R"({"threads": 2, "host_pointers": false, "strict": true})",
};

void RunBatch(aclgrad::Device& device, const std::vector<SampleCall>& calls, const std::vector<Bytes>& expected) {
  std::vector<std::shared_ptr<OwnedCall>> owned;
  std::vector<std::shared_ptr<const aclgrad::OperatorCall>> batch;
  for (const SampleCall& call : calls) {
    owned.push_back(call.Make());
    batch.emplace_back(owned.back(), &owned.back()->call);
  }
  const std::atomic<bool> is_cancelled{false};
  const std::vector<std::exception_ptr> errors = device.ExecuteAll(batch, SIZE_MAX, After(kTimeoutMs), is_cancelled);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (errors[i]) std::rethrow_exception(errors[i]);
    Expect(owned[i]->output == expected[i], "call " + std::to_string(i) + " of a batch has other bits");
  }
}

void RunStaging(aclgrad::Device& device, int thread) {
  const aclgrad::Deadline deadline = After(kTimeoutMs);
  Bytes written(kStagedBytes);
  for (std::size_t i = 0; i < written.size(); ++i) written[i] = static_cast<std::byte>(i % 251 + thread);
  const aclgrad::StagingHandle staging = device.Stage(nullptr);
  const std::size_t tensor = staging->Reserve(written.size());
  staging->Write(tensor, 0, written.data(), written.size(), deadline);
  Bytes read(written.size());
  staging->Read(tensor, 0, read.data(), read.size(), deadline);
  Expect(read == written, "staged bytes are not those that were written");
}

void Run(const std::string& path, const char* settings, int factor, const std::vector<SampleCall>& calls) {
  const auto library = OpenHost(path, settings);
  aclgrad::DeviceOptions options;
  options.pool_limit_bytes = std::size_t{256} << 20;
  options.stream_limit = 3;
  options.executor_limit = 4;
  aclgrad::Device device(library, 0, options);
  const std::size_t free_bytes = device.Memory().free_bytes;
  std::vector<Bytes> expected;
  for (const SampleCall& call : calls) expected.push_back(call.Run(device, kTimeoutMs));
  InThreads(kThreads, [&](int thread) {
    for (int round = 0; round < kRounds * factor; ++round) {
      switch ((thread + round) % 4) {
        case 0:
          RunStaging(device, thread);
          break;
        case 1:
          // The server's watch and its trim also run during calls.
          device.ReleaseFinished();
          device.Trim();
          break;
        default:
          RunBatch(device, calls, expected);
      }
    }
  });
  ExpectEqual("leased streams", device.leased_stream_count(), 0);
  device.Trim();
  ExpectEqual("reserved bytes", device.pool_statistics().reserved_bytes, 0);
  ExpectEqual("free bytes of the device", device.Memory().free_bytes, free_bytes);
}

}  // namespace
}  // namespace programs

int main(int argc, char** argv) {
  return programs::RunProgram(argc, argv, [&](const std::string& path, int factor) {
    const std::vector<programs::SampleCall> calls = programs::ReadCalls(argv[3]);
    for (const char* settings : programs::kModes) programs::Run(path, settings, factor, calls);
  });
}
