#include "shared_libraries.h"

#include <dlfcn.h>
#include <link.h>

#include "error.h"

namespace aclgrad {
namespace {

std::string Join(const std::vector<std::string>& words) {
  std::string joined;
  for (const std::string& word : words) joined += (joined.empty() ? "" : ", ") + word;
  return joined.empty() ? "none" : joined;
}

}  // namespace

SharedLibraries::SharedLibraries(const std::vector<LibraryFile>& files) {
  for (const LibraryFile& file : files) {
    // Local and lazy, as CANN's own callers load these: several of them define the same names.
    if (void* handle = dlopen(file.path.c_str(), RTLD_LAZY | RTLD_LOCAL)) {
      handles_.push_back(handle);
      opened_.push_back(file.path);
      continue;
    }
    const char* reason = dlerror();
    not_opened_.push_back(reason != nullptr ? reason : file.path);
    if (file.required) throw LibraryError("cannot open " + file.path + ": " + not_opened_.back());
  }
}

void SharedLibraries::RequireAll() const {
  if (missing_.empty()) return;
  throw LibraryError("no ACL library: " + std::to_string(missing_.size()) + " symbols are missing: " + Join(missing_) +
                     "; looked in: " + Join(opened_) + "; could not open: " + Join(not_opened_));
}

std::vector<std::string> SharedLibraries::Files() const {
  std::vector<std::string> files;
  for (void* handle : handles_) {
    link_map* map = nullptr;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr) files.emplace_back(map->l_name);
  }
  return files;
}

void* SharedLibraries::Search(const char* symbol) const {
  for (void* handle : handles_) {
    if (void* address = dlsym(handle, symbol)) return address;
  }
  return nullptr;
}

std::pair<void*, void*> SharedLibraries::SearchBoth(const char* first, const char* second) const {
  for (void* handle : handles_) {
    const std::pair<void*, void*> both{dlsym(handle, first), dlsym(handle, second)};
    if (both.first != nullptr && both.second != nullptr) return both;
  }
  return {nullptr, nullptr};
}

}  // namespace aclgrad
