// Start, end and messages.
#include <pthread.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "real.h"
#include "report.h"
#include "session.h"
#include "settings/settings_file.h"

namespace acl_strict {
namespace {

using acl_host::Json;

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
int32_t ReleaseOf(const std::string& key, const Json& value) {
  int32_t major = 0;
  int32_t minor = 0;
  int end = 0;
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  const bool is_read = std::sscanf(text.c_str(), "%2d.%2d%n", &major, &minor, &end) == 2;
  const std::string rest = text.substr(static_cast<size_t>(end));
  if (!is_read || major < 0 || minor < 0 || !(rest.empty() || rest[0] == '.')) {
    acl_host::FailSetting(key, "a release of CANN such as \"8.5\"", value);
  }
  return major * 100 + minor;
}

// The key "strict" is true, false or an object. The library itself judges the rest of the files.
Settings ReadSettings(const char* path) try {
  static const acl_host::Setters<Settings> setters = {
      {"report",
       [](Settings& made, const std::string& key, const Json& value) { made.report = acl_host::String(key, value); }},
      {"cann", [](Settings& made, const std::string& key, const Json& value) { made.release = ReleaseOf(key, value); }},
  };
  Settings settings;
  acl_host::ForSettingsFiles(path, [&](const Json& file) {
    const auto strict = file.find("strict");
    if (strict == file.end()) return;
    if (strict->is_object()) return acl_host::ApplyObject("strict", *strict, setters, settings);
    if (!strict->is_boolean()) acl_host::FailSetting("strict", "true, false or an object", *strict);
    settings.is_on = strict->get<bool>();
  });
  return settings;
} catch (const acl_host::Error& error) {
  throw Offence(error.code(), error.what());
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
