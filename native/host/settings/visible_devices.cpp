#include "settings/visible_devices.h"

#include <algorithm>
#include <charconv>

namespace acl_host {

int32_t CountVisibleDevices(std::string_view value, int32_t devices) {
  int32_t count = 0;
  int32_t last = -1;
  for (size_t begin = 0; begin <= value.size();) {
    const size_t end = std::min(value.find(',', begin), value.size());
    int32_t number = 0;
    const auto parsed = std::from_chars(value.data() + begin, value.data() + end, number);
    const bool whole = parsed.ec == std::errc() && parsed.ptr == value.data() + end;
    if (!whole || number <= last || number >= devices) break;
    last = number;
    ++count;
    begin = end + 1;
  }
  return count;
}

}  // namespace acl_host
