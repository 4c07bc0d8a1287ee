// One set of ACL libraries, opened, resolved and initialised.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "acl_functions.h"
#include "operators.h"
#include "shared_libraries.h"

namespace aclgrad {

class AclLibrary {
 public:
  // Opens the libraries, resolves every function and calls aclInit. Throws LibraryError or AclError.
  AclLibrary(const std::vector<LibraryFile>& files, const std::optional<std::string>& config_path);
  ~AclLibrary();
  AclLibrary(const AclLibrary&) = delete;
  AclLibrary& operator=(const AclLibrary&) = delete;

  [[nodiscard]] const AclFunctions& functions() const noexcept { return functions_; }
  [[nodiscard]] const AclFunctions* operator->() const noexcept { return &functions_; }

  // Throws LibraryError for an operator that the libraries lack, and std::invalid_argument for one that no header
  // declares.
  [[nodiscard]] const Operator& FindOperator(const std::string& symbol) const;

  // Whether executors are known to be reusable: only the host library declares it.
  [[nodiscard]] bool is_host() const noexcept { return functions_.aclHostPointersUsable != nullptr; }
  // Whether operators and copies accept host addresses as device addresses.
  [[nodiscard]] bool host_pointers() const noexcept { return host_pointers_; }

  // Whether the library says that running the executor takes less time than waking a thread.
  [[nodiscard]] bool IsShort(const aclOpExecutor* executor) const noexcept;

  // The paths of the opened libraries, as the loader found them.
  [[nodiscard]] const std::vector<std::string>& files() const noexcept { return files_; }

  [[nodiscard]] int DeviceCount() const;
  // Of device 0; empty if the library does not say.
  [[nodiscard]] std::string SocName() const;
  // As major.minor.patch.
  [[nodiscard]] std::string Version() const;

  // Throws AclError with the library's own message if the code is not 0. If an aclnn code hides a runtime code, the
  // error has the runtime code.
  void Check(int code, const char* call) const;
  // The same for phase 1, in which more codes are refusals.
  void CheckPhase1(int code) const;

  // Returns the code and drops the library's message for it, so that the thread's next failure does not carry it.
  int Ignore(int code) const noexcept;

 private:
  void BindFunctions(SharedLibraries& libraries);
  [[nodiscard]] bool AskForHostPointers() const noexcept;

  AclFunctions functions_{};
  OperatorTable operators_;
  std::vector<std::string> files_;
  bool initialised_here_ = false;
  bool host_pointers_ = false;
};

}  // namespace aclgrad
