// ASCEND_RT_VISIBLE_DEVICES: which of the machine's devices a process sees, numbered anew from 0.
#pragma once

#include <cstdint>
#include <string_view>

namespace acl_host {

// How many of devices the value lists: numbers in ascending order, commas between them and no spaces. As in CANN,
// reading ends at the first number that is not one of those, and what came before it holds.
[[nodiscard]] int32_t CountVisibleDevices(std::string_view value, int32_t devices);

}  // namespace acl_host
