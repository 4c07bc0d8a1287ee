// ASCEND_RT_VISIBLE_DEVICES: the machine's devices that a process sees, renumbered from 0.
#pragma once

#include <cstdint>
#include <string_view>

namespace acl_host {

// The number of devices that the value lists: numbers in ascending order, separated by commas without spaces. As in
// CANN, reading stops at the first invalid number, and the numbers before it count.
[[nodiscard]] int32_t CountVisibleDevices(std::string_view value, int32_t devices);

}  // namespace acl_host
