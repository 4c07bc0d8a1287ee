// The ACL and aclnn functions that the runtime calls.
#pragma once

#include "acl/acl.h"
#include "acl_host/acl_host_ext.h"
#include "aclnn/aclnn_base.h"

// A macro, because both the members and the names of the symbols follow from it.
#define ACL_FUNCTIONS(FUNCTION)               \
  FUNCTION(aclInit)                           \
  FUNCTION(aclFinalize)                       \
  FUNCTION(aclGetRecentErrMsg)                \
  FUNCTION(aclDataTypeSize)                   \
  FUNCTION(aclrtGetVersion)                   \
  FUNCTION(aclrtGetSocName)                   \
  FUNCTION(aclrtGetDeviceCount)               \
  FUNCTION(aclrtSetDevice)                    \
  FUNCTION(aclrtResetDevice)                  \
  FUNCTION(aclrtGetCurrentContext)            \
  FUNCTION(aclrtSetCurrentContext)            \
  FUNCTION(aclrtCtxSetSysParamOpt)            \
  FUNCTION(aclrtCreateStream)                 \
  FUNCTION(aclrtDestroyStream)                \
  FUNCTION(aclrtDestroyStreamForce)           \
  FUNCTION(aclrtSynchronizeStreamWithTimeout) \
  FUNCTION(aclrtStreamQuery)                  \
  FUNCTION(aclrtMalloc)                       \
  FUNCTION(aclrtFree)                         \
  FUNCTION(aclrtMallocHost)                   \
  FUNCTION(aclrtFreeHost)                     \
  FUNCTION(aclrtMemcpy)                       \
  FUNCTION(aclrtMemcpyAsync)                  \
  FUNCTION(aclrtMemsetAsync)                  \
  FUNCTION(aclrtGetMemInfo)                   \
  FUNCTION(aclCreateTensor)                   \
  FUNCTION(aclDestroyTensor)                  \
  FUNCTION(aclCreateIntArray)                 \
  FUNCTION(aclDestroyIntArray)                \
  FUNCTION(aclCreateBoolArray)                \
  FUNCTION(aclDestroyBoolArray)               \
  FUNCTION(aclCreateTensorList)               \
  FUNCTION(aclDestroyTensorList)              \
  FUNCTION(aclCreateScalar)                   \
  FUNCTION(aclDestroyScalar)                  \
  FUNCTION(aclDestroyAclOpExecutor)           \
  FUNCTION(aclSetAclOpExecutorRepeatable)     \
  FUNCTION(aclSetInputTensorAddr)             \
  FUNCTION(aclSetOutputTensorAddr)

// Null in old libraries, except for the last two, which only the host library has.
#define OPTIONAL_ACL_FUNCTIONS(FUNCTION) \
  FUNCTION(aclFinalizeReference)         \
  FUNCTION(aclrtGetLastError)            \
  FUNCTION(aclrtMallocAlign32)           \
  FUNCTION(aclrtSetStreamFailureMode)    \
  FUNCTION(aclHostPointersUsable)        \
  FUNCTION(aclHostExecutorIsShort)

namespace aclgrad {

// Function types come from the headers, addresses from the libraries.
struct AclFunctions {
#define MEMBER(name) decltype(&::name) name;
  ACL_FUNCTIONS(MEMBER)
  OPTIONAL_ACL_FUNCTIONS(MEMBER)
#undef MEMBER
};

}  // namespace aclgrad
