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
  const auto is_in_range = [=](int64_t place) { return IsIn(IndexAt<Index>(index, place), positions); };
  bool all_are = true;
  if (step == 1) {
    for (int64_t i = 0; i < count; ++i) all_are &= is_in_range(i);
  } else {
    for (int64_t i = 0; i < count; ++i) all_are &= is_in_range(i * step);
  }
  if (all_are) return;
  for (int64_t i = 0; i < count; ++i) {
    if (!is_in_range(i * step)) FailIndex(name, IndexAt<Index>(index, i * step), positions);
  }
}

}  // namespace
}  // namespace acl_host
