#include "acl_library.h"

#include <cstring>
#include <stdexcept>
#include <utility>

#include "error.h"
#include "thread_error.h"

namespace aclgrad {

AclLibrary::AclLibrary(const std::vector<LibraryFile>& files, const std::optional<std::string>& config_path) {
  SharedLibraries libraries(files);
  BindFunctions(libraries);
  operators_ = BindOperators(libraries);
  libraries.RequireAll();
  files_ = libraries.Files();

  const int code = functions_.aclInit(config_path ? config_path->c_str() : nullptr);
  // Other code in this process, such as PyTorch, may have initialised the runtime already.
  if (code != ACL_ERROR_REPEAT_INITIALIZE) {
    Check(code, "aclInit");
    initialised_here_ = true;
  } else {
    Ignore(code);
  }
  host_pointers_ = AskForHostPointers();
}

AclLibrary::~AclLibrary() {
  if (functions_.aclFinalizeReference != nullptr) {
    functions_.aclFinalizeReference(nullptr);
  } else if (initialised_here_) {
    // Ends the runtime for the whole process: old libraries have no other function for it.
    functions_.aclFinalize();
  }
}

void AclLibrary::BindFunctions(SharedLibraries& libraries) {
#define BIND(name) libraries.Bind(#name, functions_.name);
  ACL_FUNCTIONS(BIND)
#undef BIND
#define BIND(name) libraries.BindOptional(#name, functions_.name);
  OPTIONAL_ACL_FUNCTIONS(BIND)
#undef BIND
}

bool AclLibrary::AskForHostPointers() const noexcept {
  int32_t usable = 0;
  return functions_.aclHostPointersUsable != nullptr &&
         Ignore(functions_.aclHostPointersUsable(&usable)) == ACL_SUCCESS && usable != 0;
}

bool AclLibrary::IsShort(const aclOpExecutor* executor) const noexcept {
  int32_t is_short = 0;
  return host_pointers_ && functions_.aclHostExecutorIsShort != nullptr &&
         Ignore(functions_.aclHostExecutorIsShort(executor, &is_short)) == ACL_SUCCESS && is_short != 0;
}

const Operator& AclLibrary::FindOperator(const std::string& symbol) const {
  const auto found = operators_.find(symbol);
  if (found == operators_.end()) {
    throw std::invalid_argument("the runtime has no operator " + symbol +
                                "; a header of native/include/aclnnop has to declare it");
  }
  if (found->second.launch != nullptr) return found->second;
  throw LibraryError("no device library has both phases of " + symbol + "; install CANN's package that has it");
}

int AclLibrary::DeviceCount() const {
  uint32_t count = 0;
  Check(functions_.aclrtGetDeviceCount(&count), "aclrtGetDeviceCount");
  return static_cast<int>(count);
}

std::string AclLibrary::SocName() const {
  constexpr std::size_t kMostBytes = 64;
  const char* name = functions_.aclrtGetSocName();
  return name == nullptr ? "" : std::string(name, strnlen(name, kMostBytes));
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
  ThreadError error = TakeThreadError(functions_, code, call);
  throw AclError(error.code, call, std::move(error.text));
}

void AclLibrary::CheckPhase1(int code) const {
  constexpr const char* kCall = "phase 1";
  if (code == ACL_SUCCESS) return;
  ThreadError error = TakeThreadError(functions_, code, kCall);
  throw AclError(error.code, ClassifyPhase1Fault(error.code), kCall, std::move(error.text));
}

int AclLibrary::Ignore(int code) const noexcept {
  if (code != ACL_SUCCESS) DropThreadError(functions_);
  return code;
}

}  // namespace aclgrad
