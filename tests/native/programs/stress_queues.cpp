// Many threads submit work and one drains the completions, as in the server. Every piece of work is returned once, also
// when a queue closes with work left.
#include <poll.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "completions.h"
#include "program.h"
#include "work_queue.h"

namespace programs {
namespace {

using aclgrad::Completions;
using aclgrad::Work;
using aclgrad::WorkQueue;

constexpr int32_t kTimeoutMs = 60'000;

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

// Two queues share their completions.
void Serve(int factor) {
  constexpr std::size_t kCount = 2000;
  const auto completions = std::make_shared<Completions>();
  std::atomic<std::size_t> ran{0};
  WorkQueue calls(3, completions);
  WorkQueue copies(2, completions);
  for (int round = 0; round < factor; ++round) {
    InThreads(5, [&](int thread) {
      if (thread == 4) {
        DrainAll(*completions, kCount, [](const NumberedWork& work) {
          Expect(work.has_run && !work.error, "work came back that was not done");
        });
        return;
      }
      for (std::size_t number = static_cast<std::size_t>(thread); number < kCount; number += 4) {
        WorkQueue& queue = number % 5 == 0 ? copies : calls;
        queue.Submit(std::make_unique<NumberedWork>(number, [&ran] { ++ran; }));
      }
    });
  }
  ExpectEqual("work that was done", ran, kCount * static_cast<std::size_t>(factor));
}

// A queue closes while it is busy. Work that has not begun ends with an error, unless it has to run. What the queue
// does at its end comes after all work, and on one of its threads.
void CloseWithWorkLeft(int factor) {
  constexpr std::size_t kCount = 400;
  for (int round = 0; round < 20 * factor; ++round) {
    const auto completions = std::make_shared<Completions>();
    std::atomic<std::size_t> ran{0};
    std::size_t ran_at_end = 0;
    std::thread::id end_thread;
    {
      WorkQueue queue(3, completions, [&] {
        ran_at_end = ran;
        end_thread = std::this_thread::get_id();
      });
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
    ExpectEqual("work that was done before the end", ran_at_end, ran);
    Expect(end_thread != std::thread::id() && end_thread != std::this_thread::get_id(), "the end is on another thread");
    std::size_t reported = 0;
    DrainAll(*completions, kCount, [&](const NumberedWork& work) {
      if (work.has_run) ++reported;
      Expect(work.has_run || work.number % 5 != 0, "work that runs at close was not done");
      Expect((work.error != nullptr) == (!work.has_run || work.number % 7 == 0), "work has another end than its own");
    });
    ExpectEqual("work that was done", reported, ran);
  }
}

}  // namespace

void Run(const Arguments& given) {
  Serve(given.factor);
  CloseWithWorkLeft(given.factor);
}

}  // namespace programs
