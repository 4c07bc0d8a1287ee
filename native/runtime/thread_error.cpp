#include "thread_error.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>

#include "fault_class.h"

namespace aclgrad {
namespace {

constexpr std::size_t kTextBytes = 8192;
// Each query may cost the device a task, and some libraries repeat their last text for ever.
constexpr int kQueries = 8;

// Calls the function with each text until it returns false. A text is valid until the next query.
template <typename Function>
void ForEachText(const AclFunctions& acl, const Function& function) {
  for (int query = 0; query < kQueries; ++query) {
    const char* text = acl.aclGetRecentErrMsg();
    if (text == nullptr || *text == '\0' || !function(text)) return;
  }
}

int TakeLastCode(const AclFunctions& acl) noexcept {
  return acl.aclrtGetLastError != nullptr ? acl.aclrtGetLastError(ACL_RT_THREAD_LEVEL) : ACL_SUCCESS;
}

}  // namespace

ThreadError TakeThreadError(const AclFunctions& acl, int code) {
  ThreadError error{code, ""};
  // Before the texts, because querying them is a call of the runtime too.
  const int last = TakeLastCode(acl);
  if (HidesRuntimeCode(code) && last != ACL_SUCCESS) {
    error.code = last;
    error.text = "behind " + std::to_string(code);
  }
  const auto append = [&error](std::string_view text) {
    if (!error.text.empty() && !text.empty()) error.text += '\n';
    error.text += text;
  };
  append(FaultHint(error.code));
  std::string before;
  ForEachText(acl, [&](const char* text) {
    std::string taken(text, strnlen(text, kTextBytes));
    if (taken == before) return false;
    append(taken);
    before = std::move(taken);
    return error.text.size() < kTextBytes;
  });
  error.text.resize(std::min(error.text.size(), kTextBytes));
  return error;
}

void DropThreadError(const AclFunctions& acl) noexcept {
  static_cast<void>(TakeLastCode(acl));
  ForEachText(acl, [](const char*) { return true; });
}

}  // namespace aclgrad
