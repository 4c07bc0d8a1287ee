#include "errors/exceptions.h"

#include <atomic>
#include <new>

namespace acl_host {
namespace {

std::atomic<bool> keeps_all_messages{false};
constexpr size_t kMostText = 65536;

// CANN's runtime keeps its own codes (107xxx, 207xxx, 507xxx), not those of the layer above it, and not that an option
// was never set.
void KeepLast(aclError code) noexcept {
  if (code % 100000 / 1000 == 7 && code != ACL_ERROR_RT_SYSPARAMOPT_NOT_SET) CurrentErrors().last = code;
}

void SetRecentMessage(const char* function, int code, const char* text) noexcept {
  try {
    std::string message = std::string(function) + ": " + text + " [" + std::to_string(code) + "]";
    if (keeps_all_messages) {
      // Ends in the middle of a UTF-8 sequence.
      message = "EZ9999: Inner Error!\nEZ9999: " + message + "\n        TraceBack (most recent call last):\n" +
                CurrentErrors().recent.substr(0, kMostText) + "\xe4\xb8";
    }
    CurrentErrors().recent = std::move(message);
  } catch (const std::bad_alloc&) {
    CurrentErrors().recent.clear();
  }
}

}  // namespace

ThreadErrors& CurrentErrors() noexcept {
  thread_local ThreadErrors errors;
  return errors;
}

void KeepAllMessages(bool keeps) noexcept { keeps_all_messages = keeps; }

aclError TranslateRuntimeError(const char* function) noexcept {
  aclError code = ACL_ERROR_INTERNAL_ERROR;
  try {
    throw;
  } catch (const UnkeptError& error) {
    code = error.code();
    SetRecentMessage(function, code, error.what());
  } catch (const Error& error) {
    code = error.code();
    KeepLast(code);
    SetRecentMessage(function, code, error.what());
  } catch (const std::bad_alloc&) {
    code = ACL_ERROR_BAD_ALLOC;
    SetRecentMessage(function, code, "the host is out of memory");
  } catch (const std::exception& error) {
    SetRecentMessage(function, code, error.what());
  }
  return code;
}

aclnnStatus TranslateOperatorError(const char* function) noexcept {
  aclnnStatus code = ACLNN_ERR_INNER;
  try {
    throw;
  } catch (const OperatorError& error) {
    code = error.code();
    SetRecentMessage(function, code, error.what());
  } catch (const Error& error) {
    code = ACLNN_ERR_RUNTIME_ERROR;
    KeepLast(error.code());
    SetRecentMessage(function, code, (std::string(error.what()) + " [" + std::to_string(error.code()) + "]").c_str());
  } catch (const std::bad_alloc&) {
    SetRecentMessage(function, code, "the host is out of memory");
  } catch (const std::exception& error) {
    SetRecentMessage(function, code, error.what());
  }
  return code;
}

}  // namespace acl_host
