#include "report.h"

#include <cstdio>
#include <fstream>
#include <mutex>

#include "acl/acl_base.h"

namespace acl_strict {
namespace {

struct File {
  std::mutex mutex;
  std::string path;
};

File& TheFile() {
  static File* const file = new File;  // never destroyed: the last report comes while the process ends
  return *file;
}

}  // namespace

void SetReportFile(const std::string& path) {
  if (!path.empty() && !std::ofstream(path, std::ios::app)) {
    throw Offence(ACL_ERROR_INVALID_PARAM, "strict.report: cannot write to " + path);
  }
  File& file = TheFile();
  const std::lock_guard<std::mutex> lock(file.mutex);
  file.path = path;
}

void Report(const char* offence, const std::string& text) {
  const std::string line = "acl_strict: " + std::string(offence) + ": " + text + "\n";
  File& file = TheFile();
  const std::lock_guard<std::mutex> lock(file.mutex);
  if (file.path.empty()) {
    (void)std::fwrite(line.data(), 1, line.size(), stderr);
    return;
  }
  std::ofstream(file.path, std::ios::app) << line;
}

void Refuse(const char* offence, const std::string& text, int code) {
  Report(offence, text);
  throw Offence(code, std::string(offence) + ": " + text);
}

}  // namespace acl_strict
