#include "acl_library.h"

#include "error.h"

namespace aclgrad {

AclLibrary::AclLibrary(const std::vector<LibraryFile>& files, const std::optional<std::string>& config_path) {
  SharedLibraries libraries(files);
  BindFunctions(libraries);
  operators_ = BindOperators(libraries);
  libraries.RequireAll();

  const int code = functions_.aclInit(config_path ? config_path->c_str() : nullptr);
  // Somebody in this process, PyTorch for one, may have initialised the runtime before; then it is theirs to end.
  if (code != ACL_ERROR_REPEAT_INITIALIZE) {
    Check(code, "aclInit");
    initialised_here_ = true;
  }
  host_pointers_ = AskForHostPointers();
}

AclLibrary::~AclLibrary() {
  if (initialised_here_) functions_.aclFinalize();
}

void AclLibrary::BindFunctions(SharedLibraries& libraries) {
  AclFunctions& f = functions_;
  libraries.Bind("aclInit", f.aclInit);
  libraries.Bind("aclFinalize", f.aclFinalize);
  libraries.Bind("aclGetRecentErrMsg", f.aclGetRecentErrMsg);
  libraries.Bind("aclDataTypeSize", f.aclDataTypeSize);
  libraries.Bind("aclrtGetVersion", f.aclrtGetVersion);
  libraries.Bind("aclrtGetSocName", f.aclrtGetSocName);
  libraries.Bind("aclrtGetDeviceCount", f.aclrtGetDeviceCount);
  libraries.Bind("aclrtSetDevice", f.aclrtSetDevice);
  libraries.Bind("aclrtResetDevice", f.aclrtResetDevice);
  libraries.Bind("aclrtGetCurrentContext", f.aclrtGetCurrentContext);
  libraries.Bind("aclrtSetCurrentContext", f.aclrtSetCurrentContext);
  libraries.Bind("aclrtCtxSetSysParamOpt", f.aclrtCtxSetSysParamOpt);
  libraries.Bind("aclrtCreateStream", f.aclrtCreateStream);
  libraries.Bind("aclrtDestroyStream", f.aclrtDestroyStream);
  libraries.Bind("aclrtDestroyStreamForce", f.aclrtDestroyStreamForce);
  libraries.Bind("aclrtSynchronizeStreamWithTimeout", f.aclrtSynchronizeStreamWithTimeout);
  libraries.Bind("aclrtStreamQuery", f.aclrtStreamQuery);
  libraries.Bind("aclrtMalloc", f.aclrtMalloc);
  libraries.Bind("aclrtFree", f.aclrtFree);
  libraries.Bind("aclrtMallocHost", f.aclrtMallocHost);
  libraries.Bind("aclrtFreeHost", f.aclrtFreeHost);
  libraries.Bind("aclrtMemcpy", f.aclrtMemcpy);
  libraries.Bind("aclrtMemcpyAsync", f.aclrtMemcpyAsync);
  libraries.Bind("aclrtGetMemInfo", f.aclrtGetMemInfo);
  libraries.Bind("aclCreateTensor", f.aclCreateTensor);
  libraries.Bind("aclDestroyTensor", f.aclDestroyTensor);
  libraries.Bind("aclCreateIntArray", f.aclCreateIntArray);
  libraries.Bind("aclDestroyIntArray", f.aclDestroyIntArray);
  libraries.Bind("aclDestroyAclOpExecutor", f.aclDestroyAclOpExecutor);
  libraries.Bind("aclSetAclOpExecutorRepeatable", f.aclSetAclOpExecutorRepeatable);
  libraries.Bind("aclSetInputTensorAddr", f.aclSetInputTensorAddr);
  libraries.Bind("aclSetOutputTensorAddr", f.aclSetOutputTensorAddr);
  libraries.BindOptional("aclHostPointersUsable", f.aclHostPointersUsable);
}

bool AclLibrary::AskForHostPointers() const noexcept {
  int32_t usable = 0;
  return functions_.aclHostPointersUsable != nullptr && functions_.aclHostPointersUsable(&usable) == ACL_SUCCESS &&
         usable != 0;
}

const Operator& AclLibrary::FindOperator(const std::string& symbol) const { return operators_.at(symbol); }

int AclLibrary::DeviceCount() const {
  uint32_t count = 0;
  Check(functions_.aclrtGetDeviceCount(&count), "aclrtGetDeviceCount");
  return static_cast<int>(count);
}

std::string AclLibrary::Version() const {
  int32_t major = 0;
  int32_t minor = 0;
  int32_t patch = 0;
  Check(functions_.aclrtGetVersion(&major, &minor, &patch), "aclrtGetVersion");
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

void AclLibrary::Check(int code, const char* call) const {
  if (code == ACL_SUCCESS) return;
  const char* detail = functions_.aclGetRecentErrMsg();
  throw AclError(code, call, detail != nullptr ? detail : "");
}

}  // namespace aclgrad
