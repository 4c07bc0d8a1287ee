#include "values.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <cstring>

#include "bindings.h"
#include "buffers.h"

namespace py = pybind11;
using aclgrad::Argmax;
using aclgrad::BufferView;

namespace {

using Pair = std::array<int64_t, 2>;

void CheckIndices(const py::object& indices, int64_t bound) {
  const BufferView view(indices, /*writable=*/false);
  const py::gil_scoped_release release;
  aclgrad::CheckIndices(view.data(), view.size_bytes() / sizeof(int64_t), bound);
}

double CountWork(const py::object& boxes, const aclgrad::RoiAlign& roi_align) {
  constexpr std::size_t kBoxBytes = 5 * sizeof(float);
  const BufferView view(boxes, /*writable=*/false);
  const py::gil_scoped_release release;
  return aclgrad::CountWork(view.data(), view.size_bytes() / kBoxBytes, roi_align);
}

// Bytes that write fills without the GIL.
template <typename Element, typename Write>
py::bytes MakeBytes(std::size_t count, Write&& write) {
  PyObject* bytes = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(count * sizeof(Element)));
  if (bytes == nullptr) throw py::error_already_set();
  const auto owner = py::reinterpret_steal<py::bytes>(bytes);
  // A bytes object's contents start at an address that is a multiple of eight.
  auto* elements = reinterpret_cast<Element*>(PyBytes_AS_STRING(bytes));
  const py::gil_scoped_release release;
  write(elements);
  return owner;
}

// An argmax in a Python buffer.
class ArgmaxView {
 public:
  ArgmaxView(const py::object& data, std::size_t item_bytes, int64_t batch, int64_t channels,
             const aclgrad::Pooling& pooling)
      : buffer_(data, /*writable=*/false), argmax_{buffer_.data(), item_bytes, batch, channels, pooling} {
    if (buffer_.size_bytes() < argmax_.count() * item_bytes)
      throw py::value_error("the argmax is shorter than its shape");
  }

  void Check() const {
    const py::gil_scoped_release release;
    aclgrad::CheckArgmax(argmax_);
  }

  [[nodiscard]] py::bytes Int32Prefix() const {
    return MakeBytes<int32_t>(argmax_.count(),
                              [this](int32_t* prefix) { aclgrad::EncodeInt32Prefix(argmax_, prefix); });
  }

  [[nodiscard]] py::bytes BitMask() const {
    const std::size_t count = aclgrad::BitMaskWords(argmax_);
    return MakeBytes<uint16_t>(count, [&](uint16_t* words) {
      std::memset(words, 0, count * sizeof(uint16_t));
      aclgrad::EncodeBitMask(argmax_, words);
    });
  }

 private:
  BufferView buffer_;
  Argmax argmax_;
};

aclgrad::Pooling MakePooling(const Pair& input_size, const Pair& output_size, const Pair& kernel_size,
                             const Pair& stride, const Pair& padding) {
  return {{input_size[0], input_size[1]},
          {output_size[0], output_size[1]},
          {kernel_size[0], kernel_size[1]},
          {stride[0], stride[1]},
          {padding[0], padding[1]}};
}

}  // namespace

namespace aclgrad {

void BindValues(py::module_& module) {
  py::register_exception<InvalidValue>(module, "InvalidValueError", PyExc_ValueError);

  py::class_<Pooling>(module, "Pooling")
      .def(py::init(&MakePooling), py::arg("input_size"), py::arg("output_size"), py::arg("kernel_size"),
           py::arg("stride"), py::arg("padding"));

  py::class_<RoiAlign>(module, "RoiAlign")
      .def(py::init<int64_t, int64_t, int64_t, int64_t, int64_t, float, int64_t, bool>(), py::arg("channels"),
           py::arg("height"), py::arg("width"), py::arg("pooled_height"), py::arg("pooled_width"),
           py::arg("spatial_scale"), py::arg("sampling_ratio"), py::arg("aligned"));

  py::class_<ArgmaxView>(module, "Argmax")
      .def(py::init<const py::object&, std::size_t, int64_t, int64_t, const Pooling&>(), py::arg("data"),
           py::arg("item_bytes"), py::arg("batch"), py::arg("channels"), py::arg("pooling"))
      .def("check", &ArgmaxView::Check)
      .def("int32_prefix", &ArgmaxView::Int32Prefix)
      .def("bit_mask", &ArgmaxView::BitMask);

  module.def("check_indices", &::CheckIndices, py::arg("indices"), py::arg("bound"));
  module.def("count_work", &::CountWork, py::arg("boxes"), py::arg("roi_align"));
}

}  // namespace aclgrad
