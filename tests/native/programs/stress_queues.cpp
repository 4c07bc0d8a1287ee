// Many threads submit work for a device and one drains the completions, as in the server. Every piece of work is
// returned once, with the same bits as when it runs alone, also when a queue closes with work left.
#include <poll.h>

#include <atomic>
#include <functional>
#include <memory>

#include "completions.h"
#include "expect.h"
#include "host_library.h"
#include "sample_calls.h"
#include "work_queue.h"

namespace programs {
namespace {

using aclgrad::Completions;
using aclgrad::Device;
using aclgrad::Work;
using aclgrad::WorkQueue;

constexpr int kSubmitters = 4;
constexpr int kWorkPerSubmitter = 60;
constexpr std::size_t kStreams = 3;
constexpr int32_t kTimeoutMs = 60'000;
constexpr std::size_t kStagedBytes = (std::size_t{9} << 20) + 5;

constexpr const char* kModes[] = {
    R"({"threads": 2})",
    R"({"threads": 2, "host_pointers": false, "strict": true})",
};

class NumberedWork final : public Work {
 public:
  NumberedWork(std::size_t given_number, std::function<void()> run, bool runs_at_close = false)
      : number(given_number), run_(std::move(run)), runs_at_close_(runs_at_close) {}

  void Run() override {
    has_run = true;
    run_();
  }
  [[nodiscard]] bool runs_at_close() const noexcept override { return runs_at_close_; }

  const std::size_t number;
  bool has_run = false;

 private:
  const std::function<void()> run_;
  const bool runs_at_close_;
};

// Calls visit for each returned piece of work, count in all; fails if one is returned twice, or none arrives in time.
template <typename Visit>
void DrainAll(Completions& completions, std::size_t count, const Visit& visit) {
  std::vector<bool> seen(count);
  for (std::size_t left = count; left != 0;) {
    pollfd file{completions.file(), POLLIN, 0};
    Expect(poll(&file, 1, kTimeoutMs) == 1, std::to_string(left) + " pieces of work do not come back");
    for (const std::unique_ptr<Work>& each : completions.Drain()) {
      const auto& work = static_cast<const NumberedWork&>(*each);
      Expect(!seen.at(work.number), "work " + std::to_string(work.number) + " came back twice");
      seen[work.number] = true;
      --left;
      visit(work);
    }
  }
  Expect(completions.Drain().empty(), "more came back than was submitted");
}

// Signals its end, also after an exception.
struct Ending {
  std::atomic<bool>& is_done;
  ~Ending() { is_done = true; }
};

void RunStaging(Device& device, std::size_t number) {
  const aclgrad::Deadline deadline = After(kTimeoutMs);
  Bytes written(kStagedBytes, static_cast<std::byte>(number));
  const aclgrad::StagingHandle staging = device.Stage(nullptr);
  const std::size_t tensor =
      number % 2 == 0 ? staging->Reserve(written.size()) : staging->ReserveOnHost(written.size());
  staging->Write(tensor, 0, written.data(), written.size(), deadline);
  Bytes read(written.size());
  staging->Read(tensor, 0, read.data(), read.size(), deadline);
  Expect(read == written, "staged bytes are not those that were written");
}

void Serve(const std::string& path, const char* settings, int factor, const std::vector<SampleCall>& calls) {
  aclgrad::DeviceOptions options;
  options.pool_limit_bytes = std::size_t{256} << 20;
  options.stream_limit = kStreams;
  options.executor_limit = 4;
  Device device(OpenHost(path, settings), 0, options);
  const std::size_t free_bytes = device.Memory().free_bytes;
  std::vector<Bytes> expected;
  for (const SampleCall& call : calls) expected.push_back(call.Run(device, kTimeoutMs));

  const auto completions = std::make_shared<Completions>();
  const std::size_t per_submitter = static_cast<std::size_t>(kWorkPerSubmitter * factor);
  std::atomic<bool> is_done{false};
  {
    WorkQueue call_queue(kStreams, completions);
    WorkQueue copy_queue(2, completions);
    InThreads(kSubmitters + 2, [&](int thread) {
      if (thread == kSubmitters) {
        const Ending ending{is_done};
        DrainAll(*completions, kSubmitters * per_submitter, [](const NumberedWork& work) {
          if (work.error) std::rethrow_exception(work.error);
          Expect(work.has_run, "work came back that was not done");
        });
        return;
      }
      if (thread > kSubmitters) {
        while (!is_done) device.CheckSteps();
        return;
      }
      for (std::size_t i = 0; i < per_submitter; ++i) {
        const std::size_t number = static_cast<std::size_t>(thread) * per_submitter + i;
        const std::size_t chosen = number % calls.size();
        if (i % 10 == 0) {
          const auto staging = [&device, number] { RunStaging(device, number); };
          copy_queue.Submit(std::make_unique<NumberedWork>(number, staging));
        } else if (i % 10 == 1) {
          copy_queue.Submit(std::make_unique<NumberedWork>(number, [&device] { device.Trim(); }));
        } else {
          const auto call = [&device, &sample = calls[chosen], &bits = expected[chosen]] {
            Expect(sample.Run(device, kTimeoutMs) == bits, "a call from a queue has other bits");
          };
          call_queue.Submit(std::make_unique<NumberedWork>(number, call));
        }
      }
    });
  }
  ExpectEqual("leased streams", device.leased_stream_count(), 0);
  device.Trim();
  ExpectEqual("reserved bytes", device.pool_statistics().reserved_bytes, 0);
  ExpectEqual("free bytes of the device", device.Memory().free_bytes, free_bytes);
}

// A queue closes while it is busy. Work that has not begun ends with an error, unless it has to run.
void CloseWithWorkLeft(int factor) {
  constexpr std::size_t kCount = 400;
  for (int round = 0; round < 20 * factor; ++round) {
    const auto completions = std::make_shared<Completions>();
    std::atomic<std::size_t> ran{0};
    {
      WorkQueue queue(3, completions);
      InThreads(4, [&](int thread) {
        for (std::size_t i = 0; i < kCount / 4; ++i) {
          const std::size_t number = static_cast<std::size_t>(thread) * kCount / 4 + i;
          const auto run = [&ran, number] {
            ++ran;
            if (number % 7 == 0) throw std::runtime_error("work fails");
          };
          queue.Submit(std::make_unique<NumberedWork>(number, run, number % 5 == 0));
        }
      });
    }
    std::size_t reported = 0;
    DrainAll(*completions, kCount, [&](const NumberedWork& work) {
      if (work.has_run) ++reported;
      Expect(work.has_run || work.number % 5 != 0, "work that runs at close was not done");
      Expect((work.error != nullptr) == (!work.has_run || work.number % 7 == 0), "work has another end than its own");
    });
    ExpectEqual("work that was done", reported, ran);
  }
}

// Nothing drains: completed work is destroyed with the completions.
void LeaveUndrained() {
  const auto completions = std::make_shared<Completions>();
  WorkQueue queue(2, completions);
  for (std::size_t i = 0; i < 100; ++i) queue.Submit(std::make_unique<NumberedWork>(i, [] {}));
}

}  // namespace
}  // namespace programs

int main(int argc, char** argv) {
  return programs::RunProgram(argc, argv, [&](const std::string& path, int factor) {
    const std::vector<programs::SampleCall> calls = programs::ReadCalls(argv[3]);
    for (const char* settings : programs::kModes) programs::Serve(path, settings, factor, calls);
    programs::CloseWithWorkLeft(factor);
    programs::LeaveUndrained();
  });
}
