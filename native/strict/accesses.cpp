#include "accesses.h"

#include <cstring>

#include "real.h"
#include "report.h"
#include "session.h"

namespace acl_strict {

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

void CheckUnused(const Access& access) {
  Session& session = TheSession();
  const auto user = session.work.FindUser(access);
  if (!user) return;
  Refuse(access.writes ? "overwritten in use" : "unsynchronised read",
         session.memory.TextOf(access.address) + "; in use by " + user->Text() +
             (access.writes ? "; written in " : "; read in ") + Origin::Here().Text());
}

void RefuseOutside(const std::string& name, const Access& access) {
  Refuse("memory outside any allocation",
         name + ": " + std::to_string(access.size_bytes) + " bytes; given in " + Origin::Here().Text());
}

}  // namespace acl_strict
