#include "fault_class.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "acl/acl_rt.h"
#include "aclnn/aclnn_status.h"

namespace aclgrad {
namespace {

struct Row {
  int first;
  int last;
  FaultClass fault;
};

// Ranges of codes. Names and meanings: CANN's rt_error_codes.h and op_errno.h. Codes without a row are internal.
constexpr Row kRows[] = {
    {ACLNN_ERR_PARAM_NULLPTR, ACLNN_ERR_PARAM_INVALID, FaultClass::kRefused},
    {107019, 107020, FaultClass::kTimeout},     // wait, task
    {107022, 107023, FaultClass::kDeviceLost},  // device and stream abort: until somebody resumes them
    {207001, 207001, FaultClass::kMemory},      // memory allocation
    {207007, 207008, FaultClass::kStreams},     // all events, all streams of the device in use
    {207018, 207018, FaultClass::kMemory},      // device out of memory
    {507000, 507001, FaultClass::kDeviceLost},  // runtime, task scheduler: seen with a poisoned device
    {507002, 507009, FaultClass::kInternal},    // states of the task scheduler
    {507010, 507011, FaultClass::kDeviceLost},  // lost heartbeat, model execution
    {507012, 507012, FaultClass::kTimeout},     // report
    {507013, 507018, FaultClass::kDeviceLost},  // system DMA; AI Core and AI CPU: timeout, exception, trap
    {507019, 507020, FaultClass::kDeviceLost},  // responses of the AI CPU
    {507033, 507036, FaultClass::kDeviceLost},  // device setup; vector core: timeout, exception, trap
    {507042, 507045, FaultClass::kDeviceLost},  // cores: reads and writes out of bounds
    {507046, 507047, FaultClass::kTimeout},     // stream and event synchronisation
    {507048, 507050, FaultClass::kDeviceLost},  // FFTS+: timeout, exception, trap
    {507051, 507052, FaultClass::kInternal},    // sending and copying of queues
    {507053, 507057, FaultClass::kDeviceLost},  // memory, ECC, suspect memory, link, suspect remote
    {507899, 507902, FaultClass::kDeviceLost},  // driver, AI CPU, socket, AI CPU
    {507904, 507904, FaultClass::kDeviceLost},  // HCCL
    {507914, 507916, FaultClass::kDeviceLost},  // L3 port, CCU
};

const Row* Find(int code) noexcept {
  const Row* row = std::find_if(std::begin(kRows), std::end(kRows),
                                [code](const Row& each) { return code >= each.first && code <= each.last; });
  return row == std::end(kRows) ? nullptr : row;
}

bool IsInnerAclnnCode(int code) noexcept { return code / 1000 == 561; }

}  // namespace

FaultClass ClassifyFault(int code) noexcept {
  const Row* row = Find(code);
  return row == nullptr ? FaultClass::kInternal : row->fault;
}

FaultClass ClassifyPhase1Fault(int code) noexcept {
  return IsInnerAclnnCode(code) ? FaultClass::kRefused : ClassifyFault(code);
}

std::string FaultHint(int code, const char* call) {
  switch (code) {
    case ACLNN_ERR_PARAM_NULLPTR:
    case ACLNN_ERR_PARAM_INVALID:
      return "the call does not fit the operator, or this chip or CANN lacks the operator or its data type: compare "
             "CANN's package of operators with the chip; custom operators need ASCEND_CUSTOM_OPP_PATH before the start";
    case ACLNN_ERR_INNER_NULLPTR:
      return "CANN's package of operators for this chip may be missing, or not fit the driver, or the operator may not "
             "take this format: compare the versions, and start the process again if the operator has worked in it";
    case ACL_ERROR_RT_FEATURE_NOT_SUPPORT:
      return "this chip or release of CANN may not have this function (" + std::string(call) +
             "), or the driver and CANN may not fit together; compare their versions";
    case ACL_ERROR_RT_MEMORY_ALLOCATION:
      if (call != std::string_view("aclrtMallocHost")) return "";
      return "the host refuses pinned memory, and the device is not short of memory: raise `ulimit -l`, or the memlock "
             "limit of the container";
    case ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR:
      return "the card's memory is faulty; take the card out of service";
    default:
      return "";
  }
}

bool IsUnknownDeviceFault(int code) noexcept { return code / 1000 == 507 && Find(code) == nullptr; }

bool HidesRuntimeCode(int code) noexcept { return code == ACLNN_ERR_RUNTIME_ERROR || IsInnerAclnnCode(code); }

const char* FaultClassName(FaultClass fault) noexcept {
  switch (fault) {
    case FaultClass::kRefused:
      return "refused";
    case FaultClass::kMemory:
      return "memory";
    case FaultClass::kStreams:
      return "streams";
    case FaultClass::kTimeout:
      return "timeout";
    case FaultClass::kNotBegun:
      return "not_begun";
    case FaultClass::kDeviceLost:
      return "device_lost";
    case FaultClass::kInternal:
      break;
  }
  return "internal";
}

}  // namespace aclgrad
