// Python buffers for the runtime: views of what Python owns, and bytes that the runtime fills in place.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>

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

// A bytes object that is written before anybody sees it: a fixed prefix, then a payload of known size. A reply that is
// built so is never copied, and its memory is never cleared for nothing.
class ReplyBuffer {
 public:
  ReplyBuffer(const pybind11::bytes& prefix, std::size_t payload_bytes);

  // Throws std::logic_error after Finish.
  [[nodiscard]] void* payload() const;
  [[nodiscard]] std::size_t payload_bytes() const noexcept { return payload_bytes_; }

  // The object itself, not yet for anybody to see: to keep it alive.
  [[nodiscard]] const pybind11::object& bytes() const noexcept { return bytes_; }

  void FillWithZeros() const;

  // Hands the object out; after that nobody may write it.
  [[nodiscard]] pybind11::bytes Finish();

 private:
  pybind11::object bytes_;
  std::size_t prefix_bytes_;
  std::size_t payload_bytes_;
};

}  // namespace aclgrad
