// Start, end and messages.
#include <pthread.h>

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
};

// The key "strict" of aclInit's file: false, true, or {"report": FILE}. The library itself judges the rest of the file.
Settings ReadSettings(const char* path) {
  if (path == nullptr) path = std::getenv("ACL_HOST_CONFIG");
  if (path == nullptr) return {};
  std::ifstream file(path);
  const Json json = Json::parse(file, nullptr, false);
  if (!json.is_object() || !json.contains("strict")) return {};
  const Json& strict = json["strict"];
  if (strict.is_boolean()) return {strict.get<bool>()};
  const bool has_report = strict.is_object() && strict.size() == 1 && strict.contains("report");
  if (!has_report || !strict["report"].is_string()) {
    throw Offence(ACL_ERROR_INVALID_PARAM, R"(strict must be true, false or {"report": FILE}, not )" + strict.dump());
  }
  return {true, strict["report"].get<std::string>()};
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
  session.work.EndIf([](const StreamName&) { return true; });
  session.starts = session.allocations = session.copies = session.launches = 0;
  const std::lock_guard<std::mutex> lock(session.mutex);
  session.devices.clear();
  session.determinism = std::nullopt;
}

}  // namespace

Session& TheSession() {
  static Session* const session = new Session;
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
