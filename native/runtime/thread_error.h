// The state that an ACL library keeps of a thread's failures: their texts and the last code.
#pragma once

#include <string>

#include "acl_functions.h"

namespace aclgrad {

struct ThreadError {
  int code;
  std::string text;
};

// Takes all of it, so that the next failure does not carry it. If the given code hides a runtime code, the result has
// the runtime code. The text begins with our hint, if there is one, is cut at 8 KiB and may be in any encoding.
[[nodiscard]] ThreadError TakeThreadError(const AclFunctions& acl, int code);

// The same for a failure that is not reported.
void DropThreadError(const AclFunctions& acl) noexcept;

}  // namespace aclgrad
