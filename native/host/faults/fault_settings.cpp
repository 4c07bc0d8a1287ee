#include "faults/fault_settings.h"

#include <algorithm>

#include "acl/acl_rt.h"
#include "aclnn/aclnn_status.h"
#include "errors/exceptions.h"
#include "operator_table.h"
#include "tensors/data_type.h"

namespace acl_host {
namespace {

constexpr int64_t kLongestMs = 24 * 3600 * 1000;
constexpr int64_t kHighestCode = 999999;

// The keys "code" and "duration_ms" of a kind.
enum class Key { kNone, kOptional, kRequired };

// A kind of fault. All kinds have the keys "kind", "at" and "count", and those of plans and launches the keys
// "operator" and "data_type". "phase2_error" is a launch that is refused, and "launch_error" one that fails on the
// device. "unwritten_output" is a launch that succeeds and does nothing. "hang" is a kernel that does not end, or that
// the device ends with the code; the other hangs are calls that do not return.
struct Row {
  const char* name;
  FaultKind kind;
  Site site;
  Key code;
  aclError default_code;
  Key duration;
};

// clang-format off
constexpr Row kRows[] = {
    {"out_of_memory",        FaultKind::kOutOfMemory,     Site::kAllocation,       Key::kNone,     0,                             Key::kNone},
    {"out_of_pinned_memory", FaultKind::kOutOfMemory,     Site::kPinnedAllocation, Key::kNone,     0,                             Key::kNone},
    {"phase1_error",         FaultKind::kPhase1Error,     Site::kPlan,             Key::kOptional, ACLNN_ERR_PARAM_INVALID,       Key::kNone},
    {"phase2_error",         FaultKind::kPhase2Error,     Site::kLaunch,           Key::kOptional, ACLNN_ERR_INNER_NULLPTR,       Key::kNone},
    {"crash",                FaultKind::kCrash,           Site::kLaunch,           Key::kNone,     0,                             Key::kNone},
    {"launch_error",         FaultKind::kLaunchError,     Site::kLaunch,           Key::kOptional, ACL_ERROR_RT_AICORE_EXCEPTION, Key::kNone},
    {"unwritten_output",     FaultKind::kUnwrittenOutput, Site::kLaunch,           Key::kNone,     0,                             Key::kNone},
    {"half_output",          FaultKind::kHalfOutput,      Site::kLaunch,           Key::kNone,     0,                             Key::kNone},
    {"nan_output",           FaultKind::kNanOutput,       Site::kLaunch,           Key::kNone,     0,                             Key::kNone},
    {"hang",                 FaultKind::kHang,            Site::kLaunch,           Key::kOptional, 0,                             Key::kOptional},
    {"slow_copy",            FaultKind::kSlowCopy,        Site::kCopy,             Key::kNone,     0,                             Key::kRequired},
    {"copy_error",           FaultKind::kCopyError,       Site::kCopy,             Key::kOptional, ACL_ERROR_RT_SYSTEM_DMA_ERROR, Key::kNone},
    {"set_device_error",     FaultKind::kSetDeviceError,  Site::kSetDevice,        Key::kOptional, ACL_ERROR_RT_DEV_SETUP_ERROR,  Key::kNone},
    {"hang_allocation",      FaultKind::kHangingCall,     Site::kAllocation,       Key::kNone,     0,                             Key::kOptional},
    {"hang_launch",          FaultKind::kHangingCall,     Site::kLaunch,           Key::kNone,     0,                             Key::kOptional},
    {"hang_copy",            FaultKind::kHangingCall,     Site::kCopy,             Key::kNone,     0,                             Key::kOptional},
    {"hang_set_device",      FaultKind::kHangingCall,     Site::kSetDevice,        Key::kNone,     0,                             Key::kOptional},
    {"hang_destroy_stream",  FaultKind::kHangingCall,     Site::kDestroyStream,    Key::kNone,     0,                             Key::kOptional},
};
// clang-format on

const Row& ReadKind(const std::string& key, const Json& fault) {
  std::vector<std::string> names;
  for (const Row& row : kRows) names.emplace_back(row.name);
  const std::string name = OneOf(key + ".kind", fault.value("kind", Json()), names);
  return *std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& row) { return name == row.name; });
}

void CheckKeys(const std::string& key, const Json& fault, const Row& row) {
  std::vector<std::string> known = {"kind", "at", "count"};
  if (row.site == Site::kPlan || row.site == Site::kLaunch) known.insert(known.end(), {"operator", "data_type"});
  if (row.code != Key::kNone) known.emplace_back("code");
  if (row.duration != Key::kNone) known.emplace_back("duration_ms");
  for (const auto& [name, value] : fault.items()) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    throw Error(ACL_ERROR_INVALID_PARAM, "unknown key " + key + "." + name + " of a fault of kind " + row.name);
  }
}

Fault ReadFault(const std::string& key, const Json& value) {
  if (!value.is_object()) FailSetting(key, "an object", value);
  const Row& row = ReadKind(key, value);
  CheckKeys(key, value, row);
  const auto integer = [&](const char* name, const Json& otherwise, int64_t low, int64_t high) {
    return IntegerBetween(key + "." + name, value.value(name, otherwise), low, high);
  };
  Fault fault{row.kind, row.site, 0, 0, row.default_code, std::nullopt};
  fault.at = static_cast<uint64_t>(integer("at", Json(), 1, INT64_MAX));
  fault.count = static_cast<uint64_t>(integer("count", 1, 1, INT64_MAX));
  if (value.contains("code")) fault.code = static_cast<aclError>(integer("code", Json(), 1, kHighestCode));
  if (row.duration == Key::kRequired || value.contains("duration_ms")) {
    fault.duration = std::chrono::milliseconds(integer("duration_ms", Json(), 0, kLongestMs));
  }
  if (const auto name = value.find("operator"); name != value.end()) {
    fault.operator_name = OneOf(key + ".operator", *name, OperatorNames());
  }
  if (const auto name = value.find("data_type"); name != value.end()) {
    fault.data_type = FindDataType(OneOf(key + ".data_type", *name, DataTypeNames()));
  }
  return fault;
}

}  // namespace

const std::vector<std::string>& OperatorNames() {
#define NAME(symbol) #symbol,
  static const std::vector<std::string> names = {ACLNN_OPERATORS(NAME)};
#undef NAME
  return names;
}

std::vector<Fault> ReadFaults(const std::string& key, const Json& value) {
  if (!value.is_array()) FailSetting(key, "a list", value);
  std::vector<Fault> faults;
  for (const Json& fault : value) {
    faults.push_back(ReadFault(key + "[" + std::to_string(faults.size()) + "]", fault));
  }
  return faults;
}

}  // namespace acl_host
