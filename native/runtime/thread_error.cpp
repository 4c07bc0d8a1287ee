#include "thread_error.h"

#include <cstddef>
#include <functional>
#include <string_view>

#include "fault_class.h"

namespace aclgrad {
namespace {

constexpr std::size_t kTextBytes = 8192;
constexpr std::string_view kLeftOut = "\n[...]\n";
// Each query may cost the device a task.
constexpr int kQueries = 32;

// Calls the function with each text, up to one that comes again: some libraries repeat their last text for ever. A text
// is valid until the next query.
template <typename Function>
void ForEachText(const AclFunctions& acl, const Function& function) {
  std::size_t before = 0;
  for (int query = 0; query < kQueries; ++query) {
    const char* text = acl.aclGetRecentErrMsg();
    if (text == nullptr || *text == '\0') return;
    // Instead of a copy, which takes memory.
    const std::size_t hash = std::hash<std::string_view>()(text);
    if (hash == before) return;
    before = hash;
    function(text);
  }
}

void LeaveOutMiddle(std::string& text) {
  if (text.size() <= kTextBytes) return;
  constexpr std::size_t kEndBytes = (kTextBytes - kLeftOut.size()) / 2;
  text.replace(kEndBytes, text.size() - 2 * kEndBytes, kLeftOut);
}

int TakeLastCode(const AclFunctions& acl) noexcept {
  return acl.aclrtGetLastError != nullptr ? acl.aclrtGetLastError(ACL_RT_THREAD_LEVEL) : ACL_SUCCESS;
}

}  // namespace

ThreadError TakeThreadError(const AclFunctions& acl, int code, const char* call) {
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
  append(FaultHint(error.code, call));
  ForEachText(acl, [&](const char* text) {
    append(text);
    LeaveOutMiddle(error.text);
  });
  return error;
}

void DropThreadError(const AclFunctions& acl) noexcept {
  static_cast<void>(TakeLastCode(acl));
  ForEachText(acl, [](const char*) {});
}

}  // namespace aclgrad
