#include "report.h"

#include <dlfcn.h>
#include <execinfo.h>

#include <cstdio>
#include <fstream>
#include <mutex>
#include <sstream>
#include <string_view>

#include "acl/acl_base.h"

namespace acl_strict {
namespace {

struct File {
  std::mutex mutex;
  std::string path;
};

File& TheFile() {
  static File* const file = new File;  // never destroyed: the last report comes while the process ends
  return *file;
}

constexpr int kCallers = 3;

thread_local const char* current_function = nullptr;

const void* OwnModule() {
  Dl_info info{};
  return dladdr(reinterpret_cast<void*>(&OwnModule), &info) != 0 ? info.dli_fbase : nullptr;
}

std::string_view ModuleName(const Dl_info& info) {
  const std::string_view path = info.dli_fname == nullptr ? "?" : info.dli_fname;
  return path.substr(path.rfind('/') + 1);
}

// Frames of a foreign function interface, between the caller and this library, do not identify the caller.
bool IsForeignCallGlue(const Dl_info& info) { return ModuleName(info).substr(0, 7) == "libffi."; }

std::string FrameText(const Dl_info& info, const void* frame) {
  const auto distance = [&](const void* from) {
    return reinterpret_cast<uintptr_t>(frame) - reinterpret_cast<uintptr_t>(from);
  };
  std::ostringstream text;
  text << ModuleName(info) << std::hex << "+0x" << distance(info.dli_fbase);
  if (info.dli_sname != nullptr) text << " (" << info.dli_sname << "+0x" << distance(info.dli_saddr) << ")";
  return text.str();
}

}  // namespace

void SetReportFile(const std::string& path) {
  if (!path.empty() && !std::ofstream(path, std::ios::app)) {
    throw Offence(ACL_ERROR_INVALID_PARAM, "strict.report: cannot write to " + path);
  }
  File& file = TheFile();
  const std::lock_guard<std::mutex> lock(file.mutex);
  file.path = path;
}

void Report(const char* offence, const std::string& text) {
  const std::string line = "acl_strict: " + std::string(offence) + ": " + text + "\n";
  File& file = TheFile();
  const std::lock_guard<std::mutex> lock(file.mutex);
  if (file.path.empty()) {
    (void)std::fwrite(line.data(), 1, line.size(), stderr);
    return;
  }
  std::ofstream(file.path, std::ios::app) << line;
}

void Refuse(const char* offence, const std::string& text, int code) {
  Report(offence, text);
  throw Offence(code, std::string(offence) + ": " + text);
}

const char* CurrentFunction() noexcept { return current_function; }

void EnterFunction(const char* function) noexcept { current_function = function; }

Origin Origin::Here(const char* what, uint64_t number) {
  Origin origin;
  origin.function_ = CurrentFunction();
  origin.what_ = what;
  origin.number_ = number;
  origin.frame_count_ = backtrace(origin.frames_.data(), static_cast<int>(kFrames));
  return origin;
}

std::string Origin::Text() const {
  std::string text = function_;
  if (what_ != nullptr) text += " (" + std::string(what_) + " " + std::to_string(number_) + ")";
  const void* const own = OwnModule();
  int callers = 0;
  for (int index = 0; index < frame_count_ && callers < kCallers; ++index) {
    void* const frame = frames_[static_cast<size_t>(index)];
    Dl_info info{};
    if (dladdr(frame, &info) == 0 || info.dli_fbase == own || IsForeignCallGlue(info)) continue;
    text += (callers++ == 0 ? " called from " : ", ") + FrameText(info, frame);
  }
  return text;
}

}  // namespace acl_strict
