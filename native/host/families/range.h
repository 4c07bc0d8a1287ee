// Positions along an axis.
#pragma once

#include <algorithm>
#include <cstdint>

namespace acl_host {

// The positions from begin on, before end.
struct Range {
  int64_t begin;
  int64_t end;

  [[nodiscard]] int64_t size() const { return std::max<int64_t>(end - begin, 0); }
  [[nodiscard]] bool operator==(const Range& other) const { return begin == other.begin && end == other.end; }
};

}  // namespace acl_host
