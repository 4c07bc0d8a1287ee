#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <string>

#include "bindings.h"
#include "buffers.h"
#include "value_check.h"

namespace py = pybind11;

namespace aclgrad {
namespace {

using Pair = std::array<int64_t, 2>;

Pooling MakePooling(const Pair& input_size, const Pair& output_size, const Pair& kernel_size, const Pair& stride,
                    const Pair& padding, const Pair& dilation) {
  return {{input_size[0], input_size[1]}, {output_size[0], output_size[1]}, {kernel_size[0], kernel_size[1]},
          {stride[0], stride[1]},         {padding[0], padding[1]},         {dilation[0], dilation[1]}};
}

// Returns the bytes that a device reads instead of the data, or None if it reads the data itself. For tests only: calls
// apply their checks themselves.
py::object ApplyTo(const ValueCheck& check, const py::object& data) {
  const BufferView view(data, /*writable=*/false);
  const auto encoded = [&] {
    const py::gil_scoped_release release;
    return Apply(check, view.data(), view.size_bytes());
  }();
  if (!encoded) return py::none();
  return py::bytes(reinterpret_cast<const char*>(encoded->data()), encoded->size());
}

double CountWorkOf(const RoiAlign& roi_align, const py::object& boxes) {
  constexpr std::size_t kBoxBytes = 5 * sizeof(float);
  const BufferView view(boxes, /*writable=*/false);
  const py::gil_scoped_release release;
  return CountWork(view.data(), view.size_bytes() / kBoxBytes, roi_align);
}

template <typename Check>
py::class_<Check> BindCheck(py::module_& module, const char* name) {
  return py::class_<Check>(module, name)
      .def("apply", &ApplyTo, py::arg("data"))
      .def("encoded_bytes", &EncodedBytes, py::arg("size_bytes"));
}

}  // namespace

void BindInputChecks(py::module_& module) {
  py::class_<Pooling>(module, "Pooling")
      .def(py::init(&MakePooling), py::arg("input_size"), py::arg("output_size"), py::arg("kernel_size"),
           py::arg("stride"), py::arg("padding"), py::arg("dilation") = Pair{1, 1});
  py::class_<RoiAlign>(module, "RoiAlign")
      .def(py::init<int64_t, int64_t, int64_t, int64_t, int64_t, float, int64_t, bool, std::optional<int64_t>>(),
           py::arg("channels"), py::arg("height"), py::arg("width"), py::arg("pooled_height"), py::arg("pooled_width"),
           py::arg("spatial_scale"), py::arg("sampling_ratio"), py::arg("aligned"), py::arg("images") = py::none())
      .def("count_work", &CountWorkOf, py::arg("boxes"));

  py::enum_<MaskEncoding>(module, "MaskEncoding")
      .value("NONE", MaskEncoding::kNone)
      .value("INT32", MaskEncoding::kInt32)
      .value("BITS", MaskEncoding::kBits);
  BindCheck<IndexCheck>(module, "IndexCheck")
      .def(py::init<int64_t, std::size_t, std::optional<int64_t>>(), py::arg("bound"),
           py::arg("item_bytes") = sizeof(int64_t), py::arg("ignored") = py::none());
  BindCheck<ArgmaxCheck>(module, "ArgmaxCheck")
      .def(py::init<Pooling, std::size_t, int64_t, int64_t, MaskEncoding>(), py::arg("pooling"), py::arg("item_bytes"),
           py::arg("batch"), py::arg("channels"), py::arg("encoding"));
  BindCheck<BoxCheck>(module, "BoxCheck")
      .def(py::init<RoiAlign, double, std::size_t>(), py::arg("roi_align"), py::arg("max_work"),
           py::arg("item_bytes") = sizeof(float));
  BindCheck<VarianceCheck>(module, "VarianceCheck")
      .def(py::init<double, double, bool>(), py::arg("eps"), py::arg("tolerance"), py::arg("is_converted"));
  BindCheck<BoolCheck>(module, "BoolCheck").def(py::init<>());
}

}  // namespace aclgrad
