#include "accesses.h"

#include <atomic>
#include <cstring>

#include "aclnn/aclnn_status.h"
#include "real.h"
#include "report.h"
#include "session.h"

namespace acl_strict {
namespace {

constexpr int32_t kWrongPattern = 0xDB;
constexpr int32_t kNotANumberPattern = 0xFF;  // in each floating-point type

}  // namespace

uint64_t PaddingBytes() {
  static const uint64_t padding_bytes = [] {
    const char* const name = Real().aclrtGetSocName();
    return name != nullptr && std::strstr(name, "950") != nullptr ? uint64_t{0} : kGranule;
  }();
  return padding_bytes;
}

void CheckReachable(const std::vector<Access>& accesses) {
  for (const Access& access : accesses) TheSession().memory.CheckReachable(access);
}

void CheckUnused(const Access& access, const StreamName* own) {
  Session& session = TheSession();
  const auto user = session.work.FindUser(access, own);
  if (!user) return;
  Refuse(access.writes ? "overwritten in use" : "unsynchronised read",
         session.memory.TextOf(access.address) + "; in use by " + user->Text() +
             (access.writes ? "; written in " : "; read in ") + Origin::Here().Text());
}

void RefuseOutside(const std::string& name, const Access& access) {
  Refuse("memory outside any allocation",
         name + ": " + std::to_string(access.size_bytes) + " bytes; given in " + Origin::Here().Text());
}

Result CheckDevice(const std::vector<Access>& accesses, aclrtStream stream) {
  Session& session = TheSession();
  if (session.host_pointers) return Result::kRight;
  const int32_t device = NameOf(stream).device;
  Result result = Result::kRight;
  for (const Access& access : accesses) {
    const auto block = session.memory.Find(access.address);
    if (!(block && block->is_on_device())) {
      RefuseOutside(access.writes ? "an output or a workspace" : "an input", access);
    }
    if (block->device == device || result != Result::kRight) continue;
    result = Result::kNotANumber;
    Report("tensor of another device", session.memory.TextOf(access.address) + " is of device " +
                                           std::to_string(block->device) + "; launched on device " +
                                           std::to_string(device) + " in " + Origin::Here().Text());
  }
  return result;
}

aclnnStatus WriteWrong(Result result, const std::vector<Access>& accesses, aclrtStream stream) {
  const int32_t pattern = result == Result::kNotANumber ? kNotANumberPattern : kWrongPattern;
  for (const Access& access : accesses) {
    if (!access.writes) continue;
    void* const address = const_cast<void*>(access.address);
    if (Real().aclrtMemsetAsync(address, access.size_bytes, pattern, access.size_bytes, stream) != ACL_SUCCESS) {
      return ACLNN_ERR_RUNTIME_ERROR;
    }
  }
  return OK;
}

void CheckNoDoubleDestroy() {
  if (!TheSession().objects.is_executor_destroyed_twice()) return;
  // Cards answered with either code.
  static std::atomic<uint64_t> failures{0};
  throw Offence(failures++ % 2 == 0 ? ACLNN_ERR_INNER_NULLPTR : ACLNN_ERR_INNER,
                "this process has destroyed an executor twice; start a new one");
}

}  // namespace acl_strict
