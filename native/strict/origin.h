// A place in the program: reports say where an object was made and where it was misused.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace acl_strict {

// The function of the ABI that this thread is in, or was in last.
[[nodiscard]] const char* CurrentFunction() noexcept;
void EnterFunction(const char* function) noexcept;

class Origin {
 public:
  // The ABI function that this thread is in, and its caller. number is that of the allocation, copy or launch.
  [[nodiscard]] static Origin Here(const char* what = nullptr, uint64_t number = 0);

  // "aclrtMalloc (allocation 3) called from main+0x1f (program), libfoo.so+0x2a40"
  [[nodiscard]] std::string Text() const;

 private:
  static constexpr size_t kFrames = 24;

  const char* function_ = nullptr;
  const char* what_ = nullptr;
  uint64_t number_ = 0;
  std::array<void*, kFrames> frames_{};
  int frame_count_ = 0;
};

}  // namespace acl_strict
