// The classes that samples have.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "acl/acl_base.h"
#include "tensors/elements.h"

namespace acl_host {

// How targets are read.
struct ClassTargets {
  aclDataType type;
  int64_t classes;
  int64_t ignored;
};

namespace {

// Calls visit with the TypeTag of the targets' type.
template <typename Visitor>
void VisitTargetType(aclDataType type, const Visitor& visit) {
  switch (type) {
    case ACL_UINT8:
      return visit(TypeTag<uint8_t>{});
    case ACL_INT32:
      return visit(TypeTag<int32_t>{});
    default:
      return visit(TypeTag<int64_t>{});
  }
}

// The class of a sample, or -1 if its target is ignored or no class: then its gradient is 0, as on most devices.
template <typename Target>
[[nodiscard]] int64_t ClassOf(const ClassTargets& targets, const std::byte* elements, int64_t sample) {
  const auto target = static_cast<int64_t>(LoadElement<Target>(elements, sample));
  // In few comparisons, because branches of ignored samples are hard to foresee.
  const int64_t used = target == targets.ignored ? -1 : target;
  return static_cast<uint64_t>(used) < static_cast<uint64_t>(targets.classes) ? used : -1;
}

}  // namespace
}  // namespace acl_host
