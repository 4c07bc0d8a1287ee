// Attributes that are scalars of any type.
#pragma once

#include "aclnn/acl_meta.h"

namespace acl_host {

// The value of a real number of a parameter, which must not be null.
[[nodiscard]] double NumberOf(const aclScalar* scalar, const char* name);

}  // namespace acl_host
