// The memory of one thread of a kernel. Its size must not grow with the tensors, because nobody counts it.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace acl_host {
namespace {

// Memory for some elements, which begins where vectors do.
template <typename T>
class Scratch {
 public:
  explicit Scratch(int64_t count) : memory_(static_cast<size_t>(count) + kAlignment / sizeof(T)) {}

  [[nodiscard]] T* data() {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    return memory_.data() + (kAlignment - address % kAlignment) % kAlignment / sizeof(T);
  }

 private:
  static constexpr size_t kAlignment = 64;

  std::vector<T> memory_;
};

// Values along an axis, of which a stretch is in memory. Quick if most are looked up near the one before.
template <typename Axis, typename Value>
class Stretch {
 public:
  using Fill = void (*)(const Axis& axis, int64_t first, int64_t count, Value* values);

  // Values [0, size).
  Stretch(const Axis& axis, int64_t size, Fill fill)
      : axis_(axis), size_(size), fill_(fill), values_(static_cast<size_t>(std::min(size, kLength))) {}

  [[nodiscard]] Value At(int64_t index) {
    const int64_t first = index / kLength * kLength;
    if (first != first_) {
      first_ = first;
      fill_(axis_, first, std::min(size_ - first, kLength), values_.data());
    }
    return values_[static_cast<size_t>(index - first)];
  }

 private:
  static constexpr int64_t kLength = 512;

  const Axis& axis_;
  const int64_t size_;
  const Fill fill_;
  std::vector<Value> values_;
  int64_t first_ = -1;
};

}  // namespace
}  // namespace acl_host
