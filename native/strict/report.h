// What the library writes and refuses, and the places in the program that it names.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace acl_strict {

// A misuse that is refused. A code of 0 stands for the usual one: ACL_ERROR_RT_PARAM_INVALID from the runtime's
// functions, ACLNN_ERR_PARAM_INVALID from aclnn's.
class Offence : public std::runtime_error {
 public:
  Offence(int code, const std::string& text) : std::runtime_error(text), code_(code) {}
  [[nodiscard]] int code() const noexcept { return code_; }

 private:
  int code_;
};

// An empty path means stderr. Throws if the file cannot be written.
void SetReportFile(const std::string& path);

// Writes one line. offence is one of a fixed set of phrases.
void Report(const char* offence, const std::string& text);

// Reports, and throws an Offence.
[[noreturn]] void Refuse(const char* offence, const std::string& text, int code = 0);

// The function of the ABI that this thread is in, or was in last.
[[nodiscard]] const char* CurrentFunction() noexcept;
void EnterFunction(const char* function) noexcept;

class Origin {
 public:
  // The ABI function that this thread is in, and its caller. number is that of the allocation, copy or launch.
  [[nodiscard]] static Origin Here(const char* what = nullptr, uint64_t number = 0);

  // "aclrtMalloc (allocation 3) called from main+0x1f (program), libfoo.so+0x2a40"
  [[nodiscard]] std::string Text() const;

 private:
  static constexpr size_t kFrames = 24;

  const char* function_ = nullptr;
  const char* what_ = nullptr;
  uint64_t number_ = 0;
  std::array<void*, kFrames> frames_{};
  int frame_count_ = 0;
};

}  // namespace acl_strict
