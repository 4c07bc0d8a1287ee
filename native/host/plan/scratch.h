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
  explicit Scratch(int64_t count) : memory_(static_cast<size_t>(count) + kAlignment / sizeof(T)) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    data_ = memory_.data() + (kAlignment - address % kAlignment) % kAlignment / sizeof(T);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::byte* bytes() const { return reinterpret_cast<std::byte*>(data_); }

 private:
  static constexpr size_t kAlignment = 64;

  std::vector<T> memory_;
  T* data_;
};

// The first place in workspace where such elements may begin.
template <typename T>
[[nodiscard]] inline T* AlignedTo(std::byte* memory, size_t alignment = alignof(T)) {
  return reinterpret_cast<T*>(memory + (-reinterpret_cast<uintptr_t>(memory)) % alignment);
}

// Values along an axis, of which a stretch is in memory. Quick if most are looked up near the one before.
template <typename Axis, typename Value>
class Stretch {
 public:
  using Fill = void (*)(const Axis& axis, int64_t first, int64_t count, Value* values);

  // Values [0, size).
  Stretch(const Axis& axis, int64_t size, Fill fill)
      : axis_(axis), size_(size), fill_(fill), values_(static_cast<size_t>(std::min(size, kLength))) {}

  [[nodiscard]] Value At(int64_t index) {
    if (index < first_ || index >= first_ + kLength) Find(index);
    return values_[static_cast<size_t>(index - first_)];
  }

 private:
  [[gnu::noinline]] void Find(int64_t index) {
    first_ = index / kLength * kLength;
    fill_(axis_, first_, std::min(size_ - first_, kLength), values_.data());
  }

  static constexpr int64_t kLength = 512;

  const Axis& axis_;
  const int64_t size_;
  const Fill fill_;
  std::vector<Value> values_;
  int64_t first_ = -kLength;
};

}  // namespace
}  // namespace acl_host
