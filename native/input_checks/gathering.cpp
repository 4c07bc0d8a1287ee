#include "gathering.h"

#include <cstring>
#include <stdexcept>
#include <string>

namespace aclgrad {
namespace {

// Appends the elements of the axes from `axis` on to `target`, which it moves on.
template <std::size_t kBytes>
void GatherAxes(const Gathering& gathering, std::size_t axis, const std::byte* source, std::byte*& target) {
  const bool is_element = axis == gathering.shape.size();
  if (is_element) {
    std::memcpy(target, source, kBytes);
    target += kBytes;
    return;
  }
  const std::ptrdiff_t step = static_cast<std::ptrdiff_t>(gathering.view.strides[axis] * int64_t{kBytes});
  const int64_t size = gathering.shape[axis];
  if (axis + 1 < gathering.shape.size()) {
    for (int64_t i = 0; i < size; ++i) GatherAxes<kBytes>(gathering, axis + 1, source + i * step, target);
    return;
  }
  for (int64_t i = 0; i < size; ++i) std::memcpy(target + i * std::ptrdiff_t{kBytes}, source + i * step, kBytes);
  target += size * std::ptrdiff_t{kBytes};
}

}  // namespace

std::vector<std::byte> Gather(const Gathering& gathering, const void* data, std::size_t size_bytes) {
  const std::size_t item_bytes = gathering.item_bytes;
  const std::size_t needed = static_cast<std::size_t>(gathering.view.count) * item_bytes;
  if (size_bytes < needed || gathering.view.strides.size() != gathering.shape.size()) {
    throw std::invalid_argument("the view is of " + std::to_string(needed) + " bytes; " + std::to_string(size_bytes) +
                                " are given");
  }
  std::size_t count = 1;
  for (const int64_t size : gathering.shape) count *= static_cast<std::size_t>(size);
  std::vector<std::byte> copy(count * item_bytes);
  if (count == 0) return copy;
  const auto* const first =
      static_cast<const std::byte*>(data) + static_cast<std::size_t>(gathering.view.offset) * item_bytes;
  std::byte* target = copy.data();
  switch (item_bytes) {
    case 1:
      GatherAxes<1>(gathering, 0, first, target);
      break;
    case 2:
      GatherAxes<2>(gathering, 0, first, target);
      break;
    case 4:
      GatherAxes<4>(gathering, 0, first, target);
      break;
    case 8:
      GatherAxes<8>(gathering, 0, first, target);
      break;
    default:
      throw std::invalid_argument("no input with a rule has elements of " + std::to_string(item_bytes) + " bytes");
  }
  return copy;
}

}  // namespace aclgrad
