#include "buffers.h"

#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>

namespace py = pybind11;

namespace aclgrad {

BufferView::BufferView(const py::object& object, bool writable) {
  if (PyObject_GetBuffer(object.ptr(), &view_, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE) != 0) {
    throw py::error_already_set();
  }
}

BufferView::~BufferView() { PyBuffer_Release(&view_); }

BufferView::BufferView(BufferView&& other) noexcept : view_(std::exchange(other.view_, {})) {}

void* ReplyPart::data() const { return reply_->data() + offset_; }

void ReplyPart::FillWithZeros() const { std::memset(data(), 0, size_bytes_); }

ReplyBuffer::ReplyBuffer(const std::vector<Section>& sections) {
  constexpr auto kMaxBytes = static_cast<std::size_t>(PY_SSIZE_T_MAX);
  std::size_t size = 0;
  for (const auto& [prefix, payload_bytes] : sections) {
    size += static_cast<std::size_t>(PyBytes_GET_SIZE(prefix.ptr()));
    if (size > kMaxBytes || payload_bytes > kMaxBytes - size) throw std::bad_alloc();
    payloads_.emplace_back(size, payload_bytes);
    size += payload_bytes;
  }
  bytes_ = py::reinterpret_steal<py::object>(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size)));
  if (!bytes_) throw py::error_already_set();
  for (std::size_t i = 0; i < sections.size(); ++i) {
    const py::bytes& prefix = sections[i].first;
    const auto prefix_bytes = static_cast<std::size_t>(PyBytes_GET_SIZE(prefix.ptr()));
    std::memcpy(data() + payloads_[i].first - prefix_bytes, PyBytes_AS_STRING(prefix.ptr()), prefix_bytes);
  }
}

std::vector<ReplyPart> ReplyBuffer::Parts() {
  std::vector<ReplyPart> parts;
  for (const auto& [offset, size_bytes] : payloads_) parts.emplace_back(shared_from_this(), offset, size_bytes);
  return parts;
}

std::byte* ReplyBuffer::data() const {
  if (!bytes_) throw std::logic_error("the reply is finished");
  return reinterpret_cast<std::byte*>(PyBytes_AS_STRING(bytes_.ptr()));
}

py::bytes ReplyBuffer::Finish() {
  if (!bytes_) throw std::logic_error("the reply is finished");
  return py::reinterpret_steal<py::bytes>(bytes_.release());
}

}  // namespace aclgrad
