#include "allocator.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "bindings.h"

namespace py = pybind11;

namespace aclgrad {

void BindAllocator(py::module_& module) {
  module.def(
      "tune_allocator",
      [](std::size_t mmap_threshold_bytes, std::size_t trim_threshold_bytes, std::size_t top_pad_bytes,
         int arena_limit) {
        return TuneAllocator({mmap_threshold_bytes, trim_threshold_bytes, top_pad_bytes, arena_limit});
      },
      py::kw_only(), py::arg("mmap_threshold_bytes"), py::arg("trim_threshold_bytes"), py::arg("top_pad_bytes"),
      py::arg("arena_limit"));
  module.def("trim_allocator", &TrimAllocator, py::call_guard<py::gil_scoped_release>());
}

}  // namespace aclgrad
