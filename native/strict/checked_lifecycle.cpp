// Start, end and messages.
#include <pthread.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "real.h"
#include "report.h"
#include "session.h"

namespace acl_strict {
namespace {

using Json = nlohmann::json;

std::atomic<bool> is_forked{false};

std::string& OwnMessage() {
  thread_local std::string message;
  return message;
}

struct Settings {
  bool is_on = true;
  std::string report{};
  int32_t release = 0;
};

// "8.5" or "8.5.0" is 805.
int32_t ReleaseOf(const Json& value) {
  int32_t major = 0;
  int32_t minor = 0;
  int end = 0;
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  const bool is_read = std::sscanf(text.c_str(), "%2d.%2d%n", &major, &minor, &end) == 2;
  const std::string rest = text.substr(static_cast<size_t>(end));
  if (!is_read || major < 0 || minor < 0 || !(rest.empty() || rest[0] == '.')) {
    throw Offence(ACL_ERROR_INVALID_PARAM,
                  "strict.cann must be a release of CANN such as \"8.5\", not " + value.dump());
  }
  return major * 100 + minor;
}

// The library itself judges the rest of the file.
void ReadFile(const char* path, Settings& settings) {
  if (path == nullptr || *path == '\0') return;
  std::ifstream file(path);
  const Json json = Json::parse(file, nullptr, false);
  if (!json.is_object() || !json.contains("strict")) return;
  const Json& strict = json["strict"];
  if (strict.is_boolean()) {
    settings.is_on = strict.get<bool>();
    return;
  }
  bool is_known = strict.is_object();
  for (const auto& [key, value] : strict.items()) {
    if (key == "report" && value.is_string()) {
      settings.report = value.get<std::string>();
    } else if (key == "cann") {
      settings.release = ReleaseOf(value);
    } else {
      is_known = false;
    }
  }
  if (!is_known) {
    throw Offence(ACL_ERROR_INVALID_PARAM,
                  R"(strict must be true, false or {"report": FILE, "cann": RELEASE}, not )" + strict.dump());
  }
}

// The key "strict" of the file that ACL_HOST_CONFIG names, then of aclInit's, as the host library reads its own.
Settings ReadSettings(const char* path) {
  Settings settings;
  ReadFile(std::getenv("ACL_HOST_CONFIG"), settings);
  ReadFile(path, settings);
  return settings;
}

void WatchTheProcess() {
  static const int registered = [] {
    const int forks = pthread_atfork(nullptr, nullptr, [] { is_forked = true; });
    const int exits = std::atexit([] {
      const Session& session = TheSession();
      if (is_forked || !session.is_on || session.starts == 0) return;
      Report("not finalized", "the process ends without aclFinalize");
    });
    return forks + exits;
  }();
  (void)registered;
}

void NoteStart() {
  Session& session = TheSession();
  WatchTheProcess();
  int32_t usable = 0;
  const auto ask = Real().aclHostPointersUsable;
  session.host_pointers = ask != nullptr && ask(&usable) == ACL_SUCCESS && usable != 0;
  ++session.starts;
}

void NoteEnd() {
  Session& session = TheSession();
  for (const auto& text : session.objects.Live()) Report("leak", text);
  for (const auto& text : session.memory.Live()) Report("leak", text);
  session.objects.Clear();
  session.memory.Clear();
  session.work.DropIf([](const StreamName&) { return true; });
  session.starts = session.allocations = session.copies = session.launches = 0;
  const std::lock_guard<std::mutex> lock(session.mutex);
  session.devices.clear();
  session.determinism = std::nullopt;
}

}  // namespace

Session& TheSession() {
  // Calls before aclInit, too, follow the file that ACL_HOST_CONFIG names; aclInit tells what is wrong with it.
  static Session* const session = [] {
    auto* const made = new Session;
    try {
      const Settings settings = ReadSettings(nullptr);
      SetReportFile(settings.report);
      made->is_on = settings.is_on;
      made->release = settings.release;
    } catch (const std::exception&) {
    }
    return made;
  }();
  return *session;
}

void CheckNotForked() {
  if (!is_forked || TheSession().starts == 0) return;
  Refuse("used after fork", "by a child of the process that called aclInit; in " + Origin::Here().Text());
}

void SetMessage(const char* function, const char* text, int code) {
  OwnMessage() = std::string(function) + ": " + text + " [" + std::to_string(code) + "]";
}

void ReleaseKept() {
  Session& session = TheSession();
  session.objects.DestroyKept();
  for (const auto& [address, is_pinned] : session.memory.TakeKept()) {
    if ((is_pinned ? Real().aclrtFreeHost(address) : Real().aclrtFree(address)) != ACL_SUCCESS) DropMessage();
  }
}

aclError checked::aclInit(const char* configPath) {
  Session& session = TheSession();
  if (session.starts == 0) {
    const Settings settings = ReadSettings(configPath);
    SetReportFile(settings.report);
    session.is_on = settings.is_on;
    session.release = settings.release;
  }
  const aclError code = Real().aclInit(configPath);
  if (code == ACL_SUCCESS || code == ACL_ERROR_REPEAT_INITIALIZE) NoteStart();
  return code;
}

aclError checked::aclFinalize() {
  Session& session = TheSession();
  ReleaseKept();
  const aclError code = Real().aclFinalize();
  if (code != ACL_SUCCESS) return code;
  if (session.is_on && session.starts > 1) {
    Report("finalized for others",
           std::to_string(session.starts) + " calls of aclInit; ended in " + Origin::Here().Text());
  }
  NoteEnd();
  return code;
}

aclError checked::aclFinalizeReference(uint64_t* refCount) {
  Session& session = TheSession();
  const bool is_last = session.starts <= 1;
  if (is_last) ReleaseKept();
  const aclError code = Real().aclFinalizeReference(refCount);
  if (code != ACL_SUCCESS) return code;
  is_last ? NoteEnd() : static_cast<void>(--session.starts);
  return code;
}

const char* checked::aclGetRecentErrMsg() {
  thread_local std::string returned;
  if (OwnMessage().empty()) return Real().aclGetRecentErrMsg();
  DropMessage();
  returned = std::exchange(OwnMessage(), {});
  return returned.c_str();
}

}  // namespace acl_strict

extern "C" void aclAppLog(aclLogLevel logLevel, const char* func, const char* file, uint32_t line, const char* fmt,
                          ...) {
  const auto write = acl_strict::Real().aclAppLog;
  if (write == nullptr || fmt == nullptr) return;
  char text[1024];
  std::va_list values;
  va_start(values, fmt);
  (void)std::vsnprintf(text, sizeof text, fmt, values);
  va_end(values);
  write(logLevel, func, file, line, "%s", text);
}
