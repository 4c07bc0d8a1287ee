// Python buffers for the runtime: views of Python's memory, and bytes objects that the runtime fills in place.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

namespace aclgrad {

// Holds a Python object's buffer open. Destroy it with the GIL held.
class BufferView {
 public:
  BufferView(const pybind11::object& object, bool writable);
  ~BufferView();
  BufferView(BufferView&& other) noexcept;
  BufferView& operator=(BufferView&&) = delete;

  [[nodiscard]] void* data() const noexcept { return view_.buf; }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return static_cast<std::size_t>(view_.len); }

 private:
  Py_buffer view_{};
};

// A bytes object that is written before Python sees it: payloads of known sizes, each behind a prefix. Such a reply is
// never copied, and its memory is not cleared first. Use it with the GIL held. The payloads may be written without the
// GIL while the object is kept alive.
class ReplyBuffer {
 public:
  using Section = std::pair<std::string_view, std::size_t>;

  // Throws std::bad_alloc for more bytes than an object can have.
  explicit ReplyBuffer(const std::vector<Section>& sections);

  // The address of a section's payload.
  [[nodiscard]] std::byte* payload(std::size_t section) const { return data() + offsets_.at(section); }

  // Pass it to Python only when all payloads are written.
  [[nodiscard]] const pybind11::object& object() const noexcept { return bytes_; }

 private:
  [[nodiscard]] std::byte* data() const { return reinterpret_cast<std::byte*>(PyBytes_AS_STRING(bytes_.ptr())); }

  pybind11::object bytes_;
  std::vector<std::size_t> offsets_;
};

}  // namespace aclgrad
