// Opens the host library with the configuration that a part of a program needs.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "acl_library.h"
#include "program.h"

namespace programs {

// settings is the value of the key "host" of aclInit's file. Only one library is open at a time: a new configuration
// takes effect only after the previous library is closed.
inline std::shared_ptr<const aclgrad::AclLibrary> OpenHost(const std::string& path, const std::string& settings) {
  const char* folder = std::getenv("TMPDIR");
  std::string config = std::string(folder != nullptr ? folder : "/tmp") + "/acl_host_XXXXXX";
  const int file = mkstemp(config.data());
  Expect(file >= 0, "cannot make a file like " + config);
  close(file);
  std::ofstream(config) << R"({"host": )" << settings << "}";
  struct Removal {
    const std::string& path;
    ~Removal() { unlink(path.c_str()); }
  } const removal{config};
  return std::make_shared<const aclgrad::AclLibrary>(std::vector<aclgrad::LibraryFile>{{path}}, config);
}

// The strict library beside a host library. What it reports goes to standard error, which has to be empty.
inline std::string StrictBeside(const std::string& path) {
  return path.substr(0, path.find_last_of('/') + 1) + "libacl_strict.so";
}

// Calls body with a host library without settings, whose device is set meanwhile.
template <typename Body>
void OnSetDevice(const std::string& path, const Body& body) {
  const auto library = OpenHost(path, "{}");
  library->Check((*library)->aclrtSetDevice(0), "aclrtSetDevice");
  body(*library);
  library->Check((*library)->aclrtResetDevice(0), "aclrtResetDevice");
}

}  // namespace programs
