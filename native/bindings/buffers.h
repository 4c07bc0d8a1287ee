// Python buffers for the runtime: views of what Python owns, and bytes that the runtime fills in place.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <memory>
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

class ReplyBuffer;

// One payload of a reply, for a device to write. Keeps the reply's memory.
class ReplyPart {
 public:
  ReplyPart(std::shared_ptr<ReplyBuffer> reply, std::size_t offset, std::size_t size_bytes)
      : reply_(std::move(reply)), offset_(offset), size_bytes_(size_bytes) {}

  // Throws std::logic_error after Finish.
  [[nodiscard]] void* data() const;
  [[nodiscard]] std::size_t size_bytes() const noexcept { return size_bytes_; }
  [[nodiscard]] const ReplyBuffer& reply() const noexcept { return *reply_; }

  void FillWithZeros() const;

 private:
  std::shared_ptr<ReplyBuffer> reply_;
  std::size_t offset_;
  std::size_t size_bytes_;
};

// A bytes object that is written before anybody sees it: payloads of known sizes, each behind a prefix. A reply that is
// built so is never copied, and its memory is never cleared for nothing.
class ReplyBuffer : public std::enable_shared_from_this<ReplyBuffer> {
 public:
  using Section = std::pair<pybind11::bytes, std::size_t>;

  explicit ReplyBuffer(const std::vector<Section>& sections);

  // One part for each section.
  [[nodiscard]] std::vector<ReplyPart> Parts();

  // Throws std::logic_error after Finish.
  [[nodiscard]] std::byte* data() const;

  // The object itself, not yet for anybody to see: to keep it alive.
  [[nodiscard]] const pybind11::object& bytes() const noexcept { return bytes_; }

  // Hands the object out; after that nobody may write it.
  [[nodiscard]] pybind11::bytes Finish();

 private:
  pybind11::object bytes_;
  std::vector<std::pair<std::size_t, std::size_t>> payloads_;  // offset, size
};

}  // namespace aclgrad
