// The Python module: converts and calls. The GIL is released around everything that may block.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.h"
#include "buffers.h"
#include "device.h"
#include "error.h"

namespace py = pybind11;
using aclgrad::AclLibrary;
using aclgrad::Device;
using aclgrad::PoolStatistics;
using aclgrad::ReplyBuffer;

namespace {

using Shape = std::vector<int64_t>;
// Shape, aclDataType, and data or None.
using Input = std::tuple<Shape, int, std::optional<py::object>>;

// Holds the GIL's objects on the caller's stack while the call runs without the GIL.
class PreparedCall {
 public:
  PreparedCall(const std::vector<Input>& inputs, std::vector<aclgrad::Attribute> attributes, const Shape& output_shape,
               int output_dtype, const ReplyBuffer& reply)
      : call{{},
             std::move(attributes),
             {output_shape, static_cast<aclDataType>(output_dtype), reply.payload(), reply.payload_bytes()}} {
    buffers_.reserve(inputs.size());
    for (const auto& [shape, dtype, data] : inputs) {
      aclgrad::InputView view{shape, static_cast<aclDataType>(dtype)};
      if (data) {
        const auto& buffer = buffers_.emplace_back(*data, /*writable=*/false);
        view.data = buffer.data();
        view.size_bytes = buffer.size_bytes();
      }
      call.inputs.push_back(std::move(view));
    }
  }

  aclgrad::OperatorCall call;

 private:
  std::vector<aclgrad::BufferView> buffers_;
};

void Execute(Device& device, const std::string& symbol, const std::vector<Input>& inputs,
             std::vector<aclgrad::Attribute> attributes, const Shape& output_shape, int output_dtype,
             const ReplyBuffer& reply, int32_t timeout_ms, const std::vector<std::size_t>& prefixes) {
  PreparedCall prepared(inputs, std::move(attributes), output_shape, output_dtype, reply);
  for (const std::size_t index : prefixes) prepared.call.inputs.at(index).is_prefix = true;
  const py::gil_scoped_release release;
  device.Execute(symbol, prepared.call, timeout_ms);
}

// Destroying a device waits for its work, which may need the GIL elsewhere: let go of it meanwhile.
template <typename Object>
struct DeleteWithoutGil {
  void operator()(Object* object) const {
    const py::gil_scoped_release release;
    delete object;
  }
};

template <typename Object, typename... Arguments>
std::unique_ptr<Object, DeleteWithoutGil<Object>> MakeWithoutGil(Arguments&&... arguments) {
  const py::gil_scoped_release release;
  return std::unique_ptr<Object, DeleteWithoutGil<Object>>(new Object(std::forward<Arguments>(arguments)...));
}

py::object WithFields(const py::object& type, const aclgrad::AclError& error) {
  py::object instance = type(error.what());
  instance.attr("code") = error.code();
  instance.attr("call") = error.call();
  instance.attr("detail") = error.detail();
  return instance;
}

void BindErrors(py::module_& module) {
  static py::exception<aclgrad::LibraryError> library_error(module, "LibraryError", PyExc_RuntimeError);
  static py::exception<aclgrad::AclError> acl_error(module, "AclError", PyExc_RuntimeError);
  static py::exception<aclgrad::OutOfMemory> out_of_memory(module, "OutOfMemoryError", acl_error);
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const aclgrad::LibraryError& error) {
      PyErr_SetString(library_error.ptr(), error.what());
    } catch (const aclgrad::OutOfMemory& error) {
      py::object instance = WithFields(out_of_memory, error);
      instance.attr("size_bytes") = error.size_bytes();
      instance.attr("allocated_bytes") = error.allocated_bytes();
      instance.attr("limit_bytes") = error.limit_bytes();
      PyErr_SetObject(out_of_memory.ptr(), instance.ptr());
    } catch (const aclgrad::AclError& error) {
      PyErr_SetObject(acl_error.ptr(), WithFields(acl_error, error).ptr());
    }
  });
}

}  // namespace

PYBIND11_MODULE(_native, module) {
  BindErrors(module);
  aclgrad::BindValues(module);

  py::class_<AclLibrary, std::shared_ptr<AclLibrary>>(module, "AclLibrary")
      .def(py::init([](const std::vector<std::pair<std::string, bool>>& files, std::optional<std::string> config_path) {
             std::vector<aclgrad::LibraryFile> libraries;
             for (const auto& [path, required] : files) libraries.push_back({path, required});
             const py::gil_scoped_release release;
             return std::make_shared<AclLibrary>(libraries, config_path);
           }),
           py::arg("files"), py::arg("config_path") = std::nullopt)
      .def("device_count", &AclLibrary::DeviceCount)
      .def("version", &AclLibrary::Version);

  py::class_<PoolStatistics>(module, "PoolStatistics")
      .def_readonly("allocated_bytes", &PoolStatistics::allocated_bytes)
      .def_readonly("reserved_bytes", &PoolStatistics::reserved_bytes)
      .def_readonly("peak_allocated_bytes", &PoolStatistics::peak_allocated_bytes)
      .def_readonly("peak_reserved_bytes", &PoolStatistics::peak_reserved_bytes)
      .def_readonly("limit_bytes", &PoolStatistics::limit_bytes)
      .def_readonly("allocation_count", &PoolStatistics::allocation_count)
      .def_readonly("hit_count", &PoolStatistics::hit_count)
      .def_readonly("retry_count", &PoolStatistics::retry_count)
      .def_readonly("out_of_memory_count", &PoolStatistics::out_of_memory_count);

  py::class_<ReplyBuffer>(module, "ReplyBuffer")
      .def(py::init<const py::bytes&, std::size_t>(), py::arg("prefix"), py::arg("payload_bytes"))
      .def("fill_with_zeros", &ReplyBuffer::FillWithZeros)
      .def("finish", &ReplyBuffer::Finish);

  py::class_<Device, std::unique_ptr<Device, DeleteWithoutGil<Device>>>(module, "Device")
      .def(py::init([](std::shared_ptr<AclLibrary> library, int index, std::optional<std::size_t> pool_limit_bytes,
                       std::size_t stream_limit) {
             return MakeWithoutGil<Device>(std::move(library), index,
                                           aclgrad::DeviceOptions{pool_limit_bytes, stream_limit});
           }),
           py::arg("library"), py::arg("index"), py::kw_only(), py::arg("pool_limit_bytes"), py::arg("stream_limit"))
      .def("execute", &Execute, py::arg("symbol"), py::arg("inputs"), py::arg("attributes"), py::arg("output_shape"),
           py::arg("output_dtype"), py::arg("reply"), py::arg("timeout_ms"),
           py::arg("prefixes") = std::vector<std::size_t>{})
      .def("trim", &Device::Trim, py::call_guard<py::gil_scoped_release>())
      .def("pool_statistics", &Device::pool_statistics, py::call_guard<py::gil_scoped_release>())
      .def("memory",
           [](const Device& device) {
             const auto memory = [&] {
               const py::gil_scoped_release release;
               return device.Memory();
             }();
             return std::pair(memory.free_bytes, memory.total_bytes);
           })
      .def_property_readonly("index", &Device::index)
      .def_property_readonly("soc_name", &Device::soc_name)
      .def_property_readonly("stream_count", &Device::stream_count)
      .def_property_readonly("leased_stream_count", &Device::leased_stream_count);
}
