#include "fault_class.h"

#include "acl/acl_rt.h"
#include "aclnn/aclnn_status.h"

namespace aclgrad {
namespace {

struct Row {
  int first;
  int last;
  FaultClass fault;
};

// Ranges of codes, first match wins. Names and meanings: CANN's rt_error_codes.h and op_errno.h.
constexpr Row kRows[] = {
    {ACLNN_ERR_PARAM_NULLPTR, ACLNN_ERR_PARAM_INVALID, FaultClass::kRequest},
    {207001, 207001, FaultClass::kMemory},      // memory allocation
    {207018, 207018, FaultClass::kMemory},      // device out of memory
    {107019, 107020, FaultClass::kTimeout},     // wait, task
    {507046, 507047, FaultClass::kTimeout},     // stream and event synchronisation
    {507010, 507011, FaultClass::kDeviceLost},  // lost heartbeat, model execution
    {507014, 507018, FaultClass::kDeviceLost},  // AI Core and AI CPU: timeout, exception, trap
    {507033, 507036, FaultClass::kDeviceLost},  // device setup; vector core: timeout, exception, trap
    {507053, 507057, FaultClass::kDeviceLost},  // memory, ECC, suspect memory, link, suspect remote
    {507899, 507901, FaultClass::kDeviceLost},  // driver, AI CPU, socket
};

}  // namespace

FaultClass ClassifyFault(int code) noexcept {
  for (const Row& row : kRows) {
    if (code >= row.first && code <= row.last) return row.fault;
  }
  return FaultClass::kInternal;
}

const char* FaultClassName(FaultClass fault) noexcept {
  switch (fault) {
    case FaultClass::kRequest:
      return "request";
    case FaultClass::kMemory:
      return "memory";
    case FaultClass::kTimeout:
      return "timeout";
    case FaultClass::kDeviceLost:
      return "device_lost";
    case FaultClass::kInternal:
      break;
  }
  return "internal";
}

}  // namespace aclgrad
