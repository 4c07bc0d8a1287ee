#include "real.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "report.h"

namespace acl_strict {
namespace {

std::atomic<bool> is_open{false};

std::string OwnFile() {
  Dl_info info{};
  (void)dladdr(reinterpret_cast<void*>(&OwnFile), &info);
  return info.dli_fname;
}

std::string HostLibrary() {
  const std::string own = OwnFile();
  return own.substr(0, own.rfind('/') + 1) + "libacl_host.so";
}

// Never closed, because devices' runtimes leave threads behind.
std::vector<void*> OpenFiles() {
  const char* const named = std::getenv("ACL_STRICT_LIBRARIES");
  std::istringstream paths(named != nullptr ? named : HostLibrary());
  void* const own = dlopen(OwnFile().c_str(), RTLD_LAZY | RTLD_NOLOAD);
  std::vector<void*> handles;
  for (std::string path; std::getline(paths, path, ':');) {
    void* const handle = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (handle == nullptr) {
      Report("not opened", dlerror());
    } else if (handle == own) {
      Report("not opened", path + " is the strict library itself, which would call itself for ever");
    } else {
      handles.push_back(handle);
    }
  }
  return handles;
}

void* Find(const std::vector<void*>& handles, const char* symbol) {
  for (void* const handle : handles) {
    if (void* const address = dlsym(handle, symbol)) return address;
  }
  return nullptr;
}

// When this library is loaded, because the addresses of its exports depend on what there is.
__attribute__((constructor)) void Open() { (void)Real(); }

}  // namespace

const RealLibrary& Real() {
  static const RealLibrary* const real = [] {
    const std::vector<void*> handles = OpenFiles();
    auto* const found = new RealLibrary{};
#define BIND(name, folder, checked) found->name = reinterpret_cast<decltype(&::name)>(Find(handles, #name));
    ABI_FUNCTIONS(BIND)
    ABI_VARIADIC_FUNCTIONS(BIND)
#undef BIND
    is_open = true;
    return found;
  }();
  return *real;
}

bool IsOpen() noexcept { return is_open; }

void DropMessage() { (void)Real().aclGetRecentErrMsg(); }

}  // namespace acl_strict
