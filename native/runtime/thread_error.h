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
// the runtime code. The text begins with our hint, if there is one, and may be in any encoding. Of more than 8 KiB the
// middle is left out: CANN's pages say that the newest failure stands first, and its code puts the oldest there, which
// says most.
[[nodiscard]] ThreadError TakeThreadError(const AclFunctions& acl, int code, const char* call);

// The same for a failure that is not reported.
void DropThreadError(const AclFunctions& acl) noexcept;

}  // namespace aclgrad
