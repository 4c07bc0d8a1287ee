// The positions that an index has. In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "errors/exceptions.h"
#include "tensors/elements.h"

namespace acl_host {
namespace {

// Calls visit with the TypeTag of the index's type.
template <typename Visitor>
void VisitIndexType(aclDataType type, const Visitor& visit) {
  type == ACL_INT32 ? visit(TypeTag<int32_t>{}) : visit(TypeTag<int64_t>{});
}

// The name is that of the operator and of its parameter.
[[noreturn]] [[gnu::noinline]] void FailIndex(const char* name, int64_t index, int64_t positions) {
  throw Error(ACL_ERROR_RT_AICORE_EXCEPTION, std::string(name) + ": an element is " + std::to_string(index) +
                                                 ", and there are " + std::to_string(positions) + " positions");
}

[[nodiscard]] inline bool IsIn(int64_t index, int64_t positions) {
  return static_cast<uint64_t>(index) < static_cast<uint64_t>(positions);
}

template <typename Index>
[[nodiscard]] int64_t IndexAt(const std::byte* index, int64_t place) {
  return static_cast<int64_t>(LoadElement<Index>(index, place));
}

// Faults for an element that is out of range, of those that lie so many steps apart.
template <typename Index>
void CheckIndices(const char* name, const std::byte* index, int64_t count, int64_t step, int64_t positions) {
  // A number is negative if one of these is, which takes no comparisons.
  uint64_t outside = 0;
  const auto look = [&](int64_t place) {
    const auto position = static_cast<uint64_t>(IndexAt<Index>(index, place));
    outside |= position | (static_cast<uint64_t>(positions) - 1 - position);
  };
  if (step == 1) {
    for (int64_t i = 0; i < count; ++i) look(i);
  } else {
    for (int64_t i = 0; i < count; ++i) look(i * step);
  }
  if (outside >> 63U == 0) return;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t position = IndexAt<Index>(index, i * step);
    if (!IsIn(position, positions)) FailIndex(name, position, positions);
  }
}

}  // namespace
}  // namespace acl_host
