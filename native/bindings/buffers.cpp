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

ReplyBuffer::ReplyBuffer(const py::bytes& prefix, std::size_t payload_bytes)
    : prefix_bytes_(static_cast<std::size_t>(PyBytes_GET_SIZE(prefix.ptr()))), payload_bytes_(payload_bytes) {
  if (payload_bytes_ > static_cast<std::size_t>(PY_SSIZE_T_MAX) - prefix_bytes_) throw std::bad_alloc();
  PyObject* bytes = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(prefix_bytes_ + payload_bytes_));
  if (bytes == nullptr) throw py::error_already_set();
  bytes_ = py::reinterpret_steal<py::object>(bytes);
  std::memcpy(PyBytes_AS_STRING(bytes), PyBytes_AS_STRING(prefix.ptr()), prefix_bytes_);
}

void* ReplyBuffer::payload() const {
  if (!bytes_) throw std::logic_error("the reply is finished");
  return PyBytes_AS_STRING(bytes_.ptr()) + prefix_bytes_;
}

void ReplyBuffer::FillWithZeros() const { std::memset(payload(), 0, payload_bytes_); }

py::bytes ReplyBuffer::Finish() {
  if (!bytes_) throw std::logic_error("the reply is finished");
  return py::reinterpret_steal<py::bytes>(bytes_.release());
}

}  // namespace aclgrad
