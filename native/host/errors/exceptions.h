// Errors inside the library are exceptions. The two Guard functions turn them into codes and messages, at the ABI only.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "acl/acl_base.h"
#include "aclnn/aclnn_status.h"

namespace acl_host {

// A failure with a code of the runtime (acl*, aclrt*).
class Error : public std::runtime_error {
 public:
  static constexpr aclError kNull = ACL_ERROR_INVALID_PARAM;  // for a null pointer
  Error(aclError code, const std::string& message) : std::runtime_error(message), code_(code) {}
  [[nodiscard]] aclError code() const noexcept { return code_; }

 private:
  aclError code_;
};

// A failure that the thread's last error does not keep: an answer ("this thread has no context") rather than an error,
// or a refusal above the runtime.
class UnkeptError : public Error {
 public:
  using Error::Error;
};

// A failure with an aclnnStatus. Any other Error becomes ACLNN_ERR_RUNTIME_ERROR when it leaves an operator.
class OperatorError : public Error {
 public:
  static constexpr aclnnStatus kNull = ACLNN_ERR_PARAM_NULLPTR;
  using Error::Error;
};

// The failures of the calling thread, as the ABI reports them.
struct ThreadErrors {
  std::string recent;    // what the next aclGetRecentErrMsg returns
  std::string returned;  // keeps the pointer of the last aclGetRecentErrMsg valid
  aclError last = ACL_SUCCESS;
};
[[nodiscard]] ThreadErrors& CurrentErrors() noexcept;

// Imitates a card: one message has the texts of all failures of the thread, newest first, in many lines, and is cut at
// any byte.
void KeepAllMessages(bool keeps) noexcept;

// Translate the exception being handled: set the thread's message, and its last error if CANN's runtime would keep it;
// return the code.
[[nodiscard]] aclError TranslateRuntimeError(const char* function) noexcept;
[[nodiscard]] aclnnStatus TranslateOperatorError(const char* function) noexcept;

template <typename Body>
[[nodiscard]] aclError GuardRuntime(const char* function, Body&& body) noexcept {
  try {
    std::forward<Body>(body)();
    return ACL_SUCCESS;
  } catch (...) {
    return TranslateRuntimeError(function);
  }
}

template <typename Body>
[[nodiscard]] aclnnStatus GuardOperator(const char* function, Body&& body) noexcept {
  try {
    std::forward<Body>(body)();
    return ACLNN_SUCCESS;
  } catch (...) {
    return TranslateOperatorError(function);
  }
}

}  // namespace acl_host
