// The ACL and aclnn functions that the runtime calls.
#pragma once

#include "acl/acl.h"
#include "aclnn/aclnn_base.h"

namespace aclgrad {

// Function types come from the headers, addresses from the libraries.
struct AclFunctions {
  decltype(&::aclInit) aclInit;
  decltype(&::aclFinalize) aclFinalize;
  decltype(&::aclGetRecentErrMsg) aclGetRecentErrMsg;
  decltype(&::aclDataTypeSize) aclDataTypeSize;
  decltype(&::aclrtGetVersion) aclrtGetVersion;
  decltype(&::aclrtGetSocName) aclrtGetSocName;
  decltype(&::aclrtGetDeviceCount) aclrtGetDeviceCount;
  decltype(&::aclrtSetDevice) aclrtSetDevice;
  decltype(&::aclrtResetDevice) aclrtResetDevice;
  decltype(&::aclrtGetCurrentContext) aclrtGetCurrentContext;
  decltype(&::aclrtSetCurrentContext) aclrtSetCurrentContext;
  decltype(&::aclrtCreateStream) aclrtCreateStream;
  decltype(&::aclrtDestroyStream) aclrtDestroyStream;
  decltype(&::aclrtSynchronizeStreamWithTimeout) aclrtSynchronizeStreamWithTimeout;
  decltype(&::aclrtStreamQuery) aclrtStreamQuery;
  decltype(&::aclrtMalloc) aclrtMalloc;
  decltype(&::aclrtFree) aclrtFree;
  decltype(&::aclrtMemcpy) aclrtMemcpy;
  decltype(&::aclrtGetMemInfo) aclrtGetMemInfo;
  decltype(&::aclCreateTensor) aclCreateTensor;
  decltype(&::aclDestroyTensor) aclDestroyTensor;
  decltype(&::aclCreateIntArray) aclCreateIntArray;
  decltype(&::aclDestroyIntArray) aclDestroyIntArray;
  decltype(&::aclDestroyAclOpExecutor) aclDestroyAclOpExecutor;
};

}  // namespace aclgrad
