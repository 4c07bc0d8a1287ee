// Elements of one type as those of another.
#pragma once

#include <cstddef>
#include <cstdint>

#include "acl/acl_base.h"
#include "device/thread_pool.h"

namespace acl_host {

// Converts count elements. Numbers beyond the range of an integer type become its nearest one and NaN 0; a number is
// true unless it is 0; of a complex number the real part is taken where the other type is real.
void Convert(ThreadPool& pool, int64_t count, aclDataType from, const std::byte* source, aclDataType to,
             std::byte* target);

}  // namespace acl_host
