// Devices that take turns on a thread of ours: each call has its device's context current, also after a device was
// closed and another one opened at its address. The library refuses a stream of another context than the thread's.
#include <array>
#include <optional>

#include "device.h"
#include "device_context.h"
#include "expect.h"
#include "host_library.h"
#include "sample_calls.h"

namespace programs {
namespace {

constexpr int kRounds = 3;
constexpr int kTurns = 3;
constexpr int32_t kLongMs = 60'000;

void TakeTurns(const std::string& path, const SampleCall& call) {
  const auto library = OpenHost(path, R"({"devices": 2, "host_pointers": false})");
  std::array<std::optional<aclgrad::Device>, 2> devices;
  std::optional<Outputs> expected;
  const auto run = [&](aclgrad::Device& device) {
    const Outputs outputs = call.Run(device, kLongMs);
    if (!expected) expected = outputs;
    Expect(outputs == *expected, "a call on a thread of two devices has other bits");
  };
  const auto open = [&](int index) {
    devices[static_cast<std::size_t>(index)].emplace(library, index, aclgrad::DeviceOptions());
  };
  open(0);
  open(1);
  for (int round = 0; round < kRounds; ++round) {
    for (int turn = 0; turn < kTurns; ++turn) {
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
}  // namespace programs

int main(int argc, char** argv) {
  return programs::RunProgram(argc, argv, [&](const std::string& path, int) {
    const std::vector<programs::SampleCall> calls = programs::ReadCalls(argv[3]);
    programs::InThreads(1, [&](int) {
      aclgrad::OwnThisThread();
      programs::TakeTurns(path, calls.front());
    });
  });
}
