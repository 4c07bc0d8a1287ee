#include "strict/strict.h"

#include <pthread.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>

#include "acl/acl_rt.h"
#include "device/handle_table.h"
#include "errors/exceptions.h"

namespace acl_host {
namespace {

// Never destroyed, because work on streams may end after everything else.
struct Process {
  std::atomic<Strict*> active{nullptr};
  Strict strict;
  std::mutex mutex;
  std::string report_path;
};

std::atomic<bool> is_forked{false};

Process& TheProcess() {
  static Process* const process = new Process;
  return *process;
}

}  // namespace

Strict* Strict::Active() {
  static const std::atomic<Strict*>& active = TheProcess().active;
  return active.load(std::memory_order_acquire);
}

void Strict::Start(const std::string& report_path) {
  if (!report_path.empty() && !std::ofstream(report_path, std::ios::app)) {
    throw Error(ACL_ERROR_INVALID_PARAM, "host.strict_report: cannot write to " + report_path);
  }
  Process& process = TheProcess();
  {
    const std::lock_guard<std::mutex> lock(process.mutex);
    process.report_path = report_path;
  }
  process.active.store(&process.strict, std::memory_order_release);
  static const int registered = [] {
    const int forks = pthread_atfork(nullptr, nullptr, [] { is_forked = true; });
    const int exits = std::atexit([] {
      if (!is_forked && Active() != nullptr) Report("not finalized", "the process ends without aclFinalize");
    });
    return forks + exits;
  }();
  (void)registered;
}

void Strict::CheckNotForked() {
  if (!is_forked || Active() == nullptr) return;
  Refuse("used after fork", "by a child of the process that called aclInit; in " + Origin::Here().Text());
}

void Strict::ReportLeaks() {
  Strict* const strict = Active();
  if (strict == nullptr) return;
  for (const auto& text : strict->objects.Live()) Report("leak", text);
  for (const auto& text : strict->memory.Live()) Report("leak", text);
}

void Strict::Stop() {
  Process& process = TheProcess();
  if (process.active.exchange(nullptr) == nullptr) return;
  process.strict.objects.Clear();
  process.strict.memory.Clear();
}

void ReportMissing(void* handle) {
  if (const Strict* const strict = Strict::Active()) strict->objects.ReportIfEnded(handle);
}

void Report(const char* offence, const std::string& text) {
  Process& process = TheProcess();
  const std::string line = "acl_host: strict: " + std::string(offence) + ": " + text + "\n";
  const std::lock_guard<std::mutex> lock(process.mutex);
  if (process.report_path.empty()) {
    (void)std::fwrite(line.data(), 1, line.size(), stderr);
    return;
  }
  std::ofstream(process.report_path, std::ios::app) << line;
}

void Refuse(const char* offence, const std::string& text) {
  Report(offence, text);
  throw Offence(ACL_ERROR_RT_PARAM_INVALID, std::string(offence) + ": " + text);
}

}  // namespace acl_host
