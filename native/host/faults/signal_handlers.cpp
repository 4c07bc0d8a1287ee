#include "faults/signal_handlers.h"

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string_view>

namespace acl_host {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGQUIT};
struct sigaction replaced[NSIG];

void DumpAndRaise(int number) {
  constexpr std::string_view kText = "acl_host: a signal: all stacks would be dumped here\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, kText.data(), kText.size());
  (void)sigaction(number, &replaced[number], nullptr);
  (void)raise(number);
}

}  // namespace

void ChainSignalHandlers() {
  const char* const setting = std::getenv("ASCEND_COREDUMP_SIGNAL");
  if (setting != nullptr && std::string_view(setting) == "none") return;
  struct sigaction action{};
  action.sa_handler = DumpAndRaise;
  for (const int number : kSignals) {
    struct sigaction current{};
    (void)sigaction(number, nullptr, &current);
    if (current.sa_handler == DumpAndRaise) continue;
    replaced[number] = current;
    (void)sigaction(number, &action, nullptr);
  }
}

}  // namespace acl_host
