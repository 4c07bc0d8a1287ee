#include "origin.h"

#include <dlfcn.h>
#include <execinfo.h>

#include <sstream>
#include <string_view>

namespace acl_strict {
namespace {

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
