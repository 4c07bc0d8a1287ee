#include "tensors/axes.h"

#include <algorithm>

namespace acl_host {

int64_t PooledSize(int64_t size, int64_t kernel, int64_t stride, int64_t padding, bool ceil_mode) {
  // Room for windows after the first. 128 bits, because any of the four may be huge.
  const __int128 room = static_cast<__int128>(size) + 2 * static_cast<__int128>(padding) - kernel;
  const __int128 rounded = room + (ceil_mode ? stride - 1 : 0);
  // Division truncates, but this needs the floor.
  const bool truncated_up = rounded < 0 && rounded % stride != 0;
  __int128 count = rounded / stride - (truncated_up ? 1 : 0) + 1;
  // Drops a last window that would begin in the padding behind the input.
  if (ceil_mode && (count - 1) * stride >= static_cast<__int128>(size) + padding) --count;
  return static_cast<int64_t>(std::max<__int128>(count, 0));
}

}  // namespace acl_host
