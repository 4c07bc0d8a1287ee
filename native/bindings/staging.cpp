#include "staging.h"

#include <chrono>
#include <utility>

#include "bindings.h"
#include "buffers.h"

namespace py = pybind11;

namespace aclgrad {
namespace {

Deadline After(int32_t timeout_ms) { return Deadline::clock::now() + std::chrono::milliseconds(timeout_ms); }

void Write(const StagedTensor& tensor, std::size_t offset, const py::object& data, int32_t timeout_ms) {
  const BufferView view(data, /*writable=*/false);
  const py::gil_scoped_release release;
  tensor.held->staging().Write(tensor.number, offset, view.data(), view.size_bytes(), After(timeout_ms));
}

void Read(const StagedTensor& tensor, std::size_t offset, const ReplyPart& part, int32_t timeout_ms) {
  void* payload = part.data();
  const py::gil_scoped_release release;
  tensor.held->staging().Read(tensor.number, offset, payload, part.size_bytes(), After(timeout_ms));
}

}  // namespace

HeldStaging::~HeldStaging() {
  const py::gil_scoped_release release;
  staging_.reset();
}

void BindStaging(py::module_& module) {
  py::class_<StagedTensor>(module, "StagedTensor")
      .def("write", &Write, py::arg("offset"), py::arg("data"), py::arg("timeout_ms"))
      .def("read", &Read, py::arg("offset"), py::arg("part"), py::arg("timeout_ms"));

  py::class_<HeldStaging, std::shared_ptr<HeldStaging>>(module, "Staging")
      .def(
          "reserve",
          [](const std::shared_ptr<HeldStaging>& held, std::size_t size_bytes) {
            const py::gil_scoped_release release;
            return StagedTensor{held, held->staging().Reserve(size_bytes), size_bytes};
          },
          py::arg("size_bytes"))
      .def(
          "finish", [](const HeldStaging& held, int32_t timeout_ms) { held.staging().Finish(After(timeout_ms)); },
          py::arg("timeout_ms"), py::call_guard<py::gil_scoped_release>());
}

}  // namespace aclgrad
