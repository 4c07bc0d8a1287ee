#include "buffers.h"

#include <cstring>
#include <new>
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

ReplyBuffer::ReplyBuffer(const std::vector<Section>& sections) {
  constexpr auto kMaxBytes = static_cast<std::size_t>(PY_SSIZE_T_MAX);
  std::size_t size = 0;
  offsets_.reserve(sections.size());
  for (const auto& [prefix, payload_bytes] : sections) {
    size += prefix.size();
    if (size > kMaxBytes || payload_bytes > kMaxBytes - size) throw std::bad_alloc();
    offsets_.push_back(size);
    size += payload_bytes;
  }
  bytes_ = py::reinterpret_steal<py::object>(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size)));
  if (!bytes_) throw py::error_already_set();
  for (std::size_t i = 0; i < sections.size(); ++i) {
    const std::string_view prefix = sections[i].first;
    std::memcpy(payload(i) - prefix.size(), prefix.data(), prefix.size());
  }
}

}  // namespace aclgrad
