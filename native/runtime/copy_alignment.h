#pragma once

#include <cstddef>

namespace aclgrad {

// Alignment of both addresses of an asynchronous copy. CANN requires it up to 8.3; later releases do not say.
inline constexpr std::size_t kCopyAlignment = 64;

}  // namespace aclgrad
