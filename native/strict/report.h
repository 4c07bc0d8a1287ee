// What the library writes and refuses.
#pragma once

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

}  // namespace acl_strict
