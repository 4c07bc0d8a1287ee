// The ABI: the errors of the calling thread.
#include <utility>

#include "acl/acl_rt.h"
#include "errors/exceptions.h"

using acl_host::CurrentErrors;

const char* aclGetRecentErrMsg() {
  auto& errors = CurrentErrors();
  errors.returned = std::move(errors.recent);
  errors.recent.clear();
  return errors.returned.empty() ? nullptr : errors.returned.c_str();
}

aclError aclrtPeekAtLastError(aclrtLastErrLevel level) {
  return level == ACL_RT_THREAD_LEVEL ? CurrentErrors().last : ACL_ERROR_INVALID_PARAM;
}

aclError aclrtGetLastError(aclrtLastErrLevel level) {
  if (level != ACL_RT_THREAD_LEVEL) return ACL_ERROR_INVALID_PARAM;
  return std::exchange(CurrentErrors().last, ACL_RT_SUCCESS);
}
