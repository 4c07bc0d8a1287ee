#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "buffers.h"
#include "scan.h"

namespace py = pybind11;

namespace aclgrad {
namespace {

// Keeps the GIL: a scan reads a few dozen bytes around each payload, which takes less time than releasing it.
std::pair<py::bytes, py::list> Extract(const py::object& message, const std::vector<FieldPath>& paths,
                                       std::size_t max_rest_bytes) {
  const BufferView view(message, /*writable=*/false);
  const ExtractedPayloads extracted =
      ExtractPayloads(static_cast<const uint8_t*>(view.data()), view.size_bytes(), paths, max_rest_bytes);
  const auto whole = py::reinterpret_steal<py::object>(PyMemoryView_FromObject(message.ptr()));
  if (!whole) throw py::error_already_set();
  py::list payloads(extracted.payloads.size());
  for (std::size_t i = 0; i < extracted.payloads.size(); ++i) {
    payloads[i] = whole[py::slice(static_cast<py::ssize_t>(extracted.payloads[i].start),
                                  static_cast<py::ssize_t>(extracted.payloads[i].stop), 1)];
  }
  return {py::bytes(extracted.rest), std::move(payloads)};
}

}  // namespace

void BindWire(py::module_& module) {
  py::register_exception<MalformedMessage>(module, "MalformedMessageError", PyExc_ValueError);
  py::register_exception<RestTooLarge>(module, "RestTooLargeError", PyExc_ValueError);
  module.def("extract_payloads", &Extract, py::arg("message"), py::arg("paths"), py::arg("max_rest_bytes") = SIZE_MAX);
}

}  // namespace aclgrad
