// The size of a pooled axis, for all pooling with windows of one size.
#pragma once

#include <cstdint>

namespace acl_host {

// The number of windows that fit along one axis; 0 if none fits.
[[nodiscard]] int64_t PooledSize(int64_t size, int64_t kernel, int64_t stride, int64_t padding, bool ceil_mode);

}  // namespace acl_host
