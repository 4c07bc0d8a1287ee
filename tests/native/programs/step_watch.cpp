// The watch finds an overdue step among as many steps as a device has threads, until the step ends.
#include "step_watch.h"

#include <chrono>
#include <deque>

#include "program.h"

namespace programs {
namespace {

using aclgrad::Deadline;
using aclgrad::StepWatch;

// Those of the largest --streams: as many for small calls, and a few that copy.
constexpr std::size_t kThreads = 2 * 1024 + 4;
constexpr std::size_t kSteps = 2 * kThreads;  // one within another
constexpr std::chrono::hours kHour{1};

void FindOneOfMany() {
  StepWatch watch(kHour, kThreads);
  Expect(!watch.IsOverdue(), "a watch without steps has one that is overdue");
  Expect(watch.Oldest() == Deadline::duration::zero(), "a watch without steps has one that took time");
  std::deque<StepWatch::Step> others;
  while (others.size() + 3 < kSteps) others.emplace_back(watch);
  Expect(!watch.IsOverdue(), "a step of an instant is overdue after an hour");
  {
    const StepWatch::Step in_time(watch, Deadline::clock::now() - kHour / 2);
    Expect(!watch.IsOverdue(), "a wait is overdue within its limit");
    Expect(watch.Oldest() >= kHour / 2 && watch.Oldest() < kHour, "the age of a wait is not that since its deadline");
    const StepWatch::Step waiting(watch, Deadline::clock::now() + kHour);
    Expect(watch.Oldest() < kHour, "a wait before its deadline has an age");
    const StepWatch::Step overdue(watch, Deadline::clock::now() - 2 * kHour);
    Expect(watch.IsOverdue(), "a step beyond its limit is not seen among many");
  }
  Expect(!watch.IsOverdue(), "a step that has ended is overdue");
}

// Steps start and end in many threads while one thread watches.
void ComeAndGo(int factor) {
  StepWatch watch(kHour, 8);
  InThreads(8, [&](int thread) {
    for (int i = 0; i < 2000 * factor; ++i) {
      if (thread == 0) {
        Expect(!watch.IsOverdue(), "a step is overdue that is not");
      } else {
        const StepWatch::Step outer(watch);
        const StepWatch::Step inner(watch, Deadline::clock::now() + kHour);
      }
    }
  });
  const StepWatch::Step overdue(watch, Deadline::clock::now() - 2 * kHour);
  Expect(watch.IsOverdue(), "no slot is left");
}

// Steps without a slot are not watched, and end like others.
void RunOutOfSlots() {
  StepWatch watch(kHour, kThreads);
  {
    std::deque<StepWatch::Step> steps;
    for (std::size_t i = 0; i <= kSteps; ++i) steps.emplace_back(watch);
    Expect(!watch.IsOverdue(), "a step beyond the slots is overdue");
  }
  const StepWatch::Step overdue(watch, Deadline::clock::now() - 2 * kHour);
  Expect(watch.IsOverdue(), "steps keep their slots");
}

}  // namespace

void Run(const Arguments& given) {
  FindOneOfMany();
  ComeAndGo(given.factor);
  RunOutOfSlots();
}

}  // namespace programs
