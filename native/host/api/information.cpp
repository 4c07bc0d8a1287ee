// The ABI: what programs ask about the platform, and their own lines in CANN's log.
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "api.h"
#include "device/runtime.h"
#include "errors/exceptions.h"
#include "errors/pointers.h"

namespace acl_host {
namespace {

constexpr size_t kLongestLine = 1024;

// As CANN's logs: "3 ERROR" and what is worse, if not said otherwise.
int32_t LogLevel() {
  const char* const level = std::getenv("ASCEND_GLOBAL_LOG_LEVEL");
  return level == nullptr ? ACL_ERROR : static_cast<int32_t>(std::strtol(level, nullptr, 10));
}

bool LogsAreShown() {
  const char* const shown = std::getenv("ASCEND_SLOG_PRINT_TO_STDOUT");
  return shown != nullptr && std::strcmp(shown, "1") == 0;
}

// The version of an installed package. CANN, too, takes - and _ in names of packages for each other.
std::string VersionOf(std::string package) {
  const char* const home = std::getenv("ASCEND_HOME_PATH");
  for (const char other : {'\0', '_', '-'}) {
    if (home == nullptr) break;
    if (other != '\0') std::replace(package.begin(), package.end(), other == '_' ? '-' : '_', other);
    std::ifstream file(std::string(home) + "/share/info/" + package + "/version.info");
    for (std::string line; std::getline(file, line);) {
      constexpr const char* key = "Version=";
      const size_t found = line.find(key);
      if (found == std::string::npos) continue;
      const std::string version = line.substr(found + std::strlen(key));
      const size_t end = version.find_last_not_of(" \t\r");
      if (end != std::string::npos && end < ACL_PKG_VERSION_MAX_SIZE - 1) return version.substr(0, end + 1);
    }
  }
  throw Error(ACL_ERROR_INVALID_FILE, "no package " + package + " is installed below ASCEND_HOME_PATH");
}

const char* PackageOf(aclCANNPackageName name) {
  switch (name) {
    case ACL_PKG_NAME_CANN:
    case ACL_PKG_NAME_RUNTIME:
      return "runtime";
    case ACL_PKG_NAME_COMPILER:
      return "bisheng-compiler";
    case ACL_PKG_NAME_HCCL:
      return "hccl";
    case ACL_PKG_NAME_TOOLKIT:
      return "oam-tools";
    case ACL_PKG_NAME_OPP:
    case ACL_PKG_NAME_OPP_KERNEL:
      return "ops-legacy";
    case ACL_PKG_NAME_DRIVER:
      return "driver";
  }
  throw Error(ACL_ERROR_INVALID_PARAM, "there is no package " + std::to_string(static_cast<int>(name)));
}

template <size_t kSize>
void Fill(char (&part)[kSize], const std::string& text) {
  (void)std::snprintf(part, kSize, "%s", text.c_str());
}

}  // namespace

void api::aclGetCannAttribute(aclCannAttr cannAttr, int32_t* value) {
  int32_t& result = Required(value, "value");
  switch (cannAttr) {
    case ACL_CANN_ATTR_INF_NAN:  // a processor computes as IEEE 754 says, and compiles nothing
      result = 1;
      return;
    case ACL_CANN_ATTR_BF16:
      result = HasBf16(Runtime::CurrentOrNew()->product()) ? 1 : 0;
      return;
    case ACL_CANN_ATTR_JIT_COMPILE:
      result = 0;
      return;
    default:
      throw Error(ACL_ERROR_INVALID_PARAM, "there is no attribute " + std::to_string(static_cast<int>(cannAttr)));
  }
}

// Of the host device itself, and not of the product that it poses as: programs divide work by these.
void api::aclGetDeviceCapability(uint32_t deviceId, aclDeviceInfo deviceInfo, int64_t* value) {
  int64_t& result = Required(value, "value");
  const auto runtime = Runtime::CurrentOrNew();
  if (deviceId >= static_cast<uint32_t>(runtime->device_count())) {
    throw Error(ACL_ERROR_INVALID_PARAM, "there is no device " + std::to_string(deviceId));
  }
  switch (deviceInfo) {
    case ACL_DEVICE_INFO_AI_CORE_NUM:
    case ACL_DEVICE_INFO_VECTOR_CORE_NUM:
      result = runtime->config().threads;
      return;
    case ACL_DEVICE_INFO_L2_SIZE:
      result = std::max(0L, sysconf(_SC_LEVEL2_CACHE_SIZE));
      return;
    default:
      throw Error(ACL_ERROR_INVALID_PARAM, "there is no information " + std::to_string(static_cast<int>(deviceInfo)));
  }
}

void api::aclsysGetVersionStr(char* pkgName, char* versionStr) {
  char* const text = &Required(versionStr, "versionStr");
  const std::string version = VersionOf(&Required(pkgName, "pkgName"));
  std::memcpy(text, version.c_str(), version.size() + 1);
}

void api::aclsysGetCANNVersion(aclCANNPackageName name, aclCANNPackageVersion* version) {
  aclCANNPackageVersion& result = Required(version, "version");
  const std::string text = VersionOf(PackageOf(name));
  result = {};
  Fill(result.version, text);
  std::istringstream parts(text);
  std::string part;
  if (std::getline(parts, part, '.')) Fill(result.majorVersion, part);
  if (std::getline(parts, part, '.')) Fill(result.minorVersion, part);
  if (std::getline(parts, part, '.')) Fill(result.releaseVersion, part);
  if (std::getline(parts, part)) Fill(result.patchVersion, part);
}

}  // namespace acl_host

void aclAppLog(aclLogLevel logLevel, const char* func, const char* file, uint32_t line, const char* fmt, ...) {
  if (func == nullptr || file == nullptr || fmt == nullptr || logLevel < acl_host::LogLevel() ||
      !acl_host::LogsAreShown())
    return;
  char text[acl_host::kLongestLine];
  std::va_list values;
  va_start(values, fmt);
  (void)std::vsnprintf(text, sizeof text, fmt, values);
  va_end(values);
  (void)std::printf("[%s] %s:%s:%u: \"%s\"\n", logLevel >= ACL_ERROR ? "ERROR" : "INFO", func, file, line, text);
}
