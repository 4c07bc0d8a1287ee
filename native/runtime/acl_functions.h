// The ACL and aclnn functions that the runtime calls.
#pragma once

#include "acl/acl.h"
#include "acl_host/acl_host_ext.h"
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
  decltype(&::aclrtCtxSetSysParamOpt) aclrtCtxSetSysParamOpt;
  decltype(&::aclrtCreateStream) aclrtCreateStream;
  decltype(&::aclrtDestroyStream) aclrtDestroyStream;
  decltype(&::aclrtDestroyStreamForce) aclrtDestroyStreamForce;
  decltype(&::aclrtSynchronizeStreamWithTimeout) aclrtSynchronizeStreamWithTimeout;
  decltype(&::aclrtStreamQuery) aclrtStreamQuery;
  decltype(&::aclrtMalloc) aclrtMalloc;
  decltype(&::aclrtFree) aclrtFree;
  decltype(&::aclrtMallocHost) aclrtMallocHost;
  decltype(&::aclrtFreeHost) aclrtFreeHost;
  decltype(&::aclrtMemcpy) aclrtMemcpy;
  decltype(&::aclrtMemcpyAsync) aclrtMemcpyAsync;
  decltype(&::aclrtGetMemInfo) aclrtGetMemInfo;
  decltype(&::aclCreateTensor) aclCreateTensor;
  decltype(&::aclDestroyTensor) aclDestroyTensor;
  decltype(&::aclCreateIntArray) aclCreateIntArray;
  decltype(&::aclDestroyIntArray) aclDestroyIntArray;
  decltype(&::aclDestroyAclOpExecutor) aclDestroyAclOpExecutor;
  decltype(&::aclSetAclOpExecutorRepeatable) aclSetAclOpExecutorRepeatable;
  decltype(&::aclSetInputTensorAddr) aclSetInputTensorAddr;
  decltype(&::aclSetOutputTensorAddr) aclSetOutputTensorAddr;
  // Null in every library but the host library.
  decltype(&::aclHostPointersUsable) aclHostPointersUsable;
};

}  // namespace aclgrad
