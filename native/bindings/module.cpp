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
#include "call.h"
#include "device.h"
#include "error.h"

namespace py = pybind11;
using aclgrad::AclLibrary;
using aclgrad::Device;
using aclgrad::ReplyBuffer;

namespace {

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
  instance.attr("fault") = aclgrad::FaultClassName(error.fault());
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
  module.def(
      "fault_class", [](int code) { return aclgrad::FaultClassName(aclgrad::ClassifyFault(code)); }, py::arg("code"));
  aclgrad::BindAllocator(module);
  aclgrad::BindValues(module);
  aclgrad::BindPool(module);
  aclgrad::BindStaging(module);

  py::class_<AclLibrary, std::shared_ptr<AclLibrary>>(module, "AclLibrary")
      .def(py::init([](const std::vector<std::pair<std::string, bool>>& files, std::optional<std::string> config_path) {
             std::vector<aclgrad::LibraryFile> libraries;
             for (const auto& [path, required] : files) libraries.push_back({path, required});
             const py::gil_scoped_release release;
             return std::make_shared<AclLibrary>(libraries, config_path);
           }),
           py::arg("files"), py::arg("config_path") = std::nullopt)
      .def_property_readonly("is_host", &AclLibrary::is_host)
      .def_property_readonly("host_pointers", &AclLibrary::host_pointers)
      .def("device_count", &AclLibrary::DeviceCount)
      .def("version", &AclLibrary::Version);

  py::class_<ReplyBuffer>(module, "ReplyBuffer")
      .def(py::init<const py::bytes&, std::size_t>(), py::arg("prefix"), py::arg("payload_bytes"))
      .def("fill_with_zeros", &ReplyBuffer::FillWithZeros)
      .def("finish", &ReplyBuffer::Finish);

  py::class_<Device, std::unique_ptr<Device, DeleteWithoutGil<Device>>>(module, "Device")
      .def(
          py::init([](std::shared_ptr<AclLibrary> library, int index, std::optional<std::size_t> pool_limit_bytes,
                      std::size_t stream_limit, std::optional<std::size_t> pool_high_water_bytes,
                      bool pool_pass_through, std::size_t executor_limit, bool deterministic, int32_t hang_timeout_ms) {
            return MakeWithoutGil<Device>(
                std::move(library), index,
                aclgrad::DeviceOptions{pool_limit_bytes, pool_high_water_bytes, pool_pass_through, stream_limit,
                                       executor_limit, deterministic, hang_timeout_ms});
          }),
          py::arg("library"), py::arg("index"), py::kw_only(), py::arg("pool_limit_bytes"), py::arg("stream_limit"),
          py::arg("pool_high_water_bytes") = std::nullopt, py::arg("pool_pass_through") = false,
          py::arg("executor_limit") = 0, py::arg("deterministic") = false, py::arg("hang_timeout_ms") = 60'000)
      .def("execute", &aclgrad::Execute, py::arg("symbol"), py::arg("inputs"), py::arg("attributes"),
           py::arg("output_shape"), py::arg("output_dtype"), py::arg("output"), py::arg("timeout_ms"),
           py::arg("prefixes") = std::vector<std::size_t>{})
      .def(
          "stage",
          [](const py::object& self, int32_t timeout_ms) {
            auto& device = self.cast<Device&>();
            aclgrad::StagingHandle staging = [&] {
              const py::gil_scoped_release release;
              return device.Stage(timeout_ms);
            }();
            return std::make_shared<aclgrad::HeldStaging>(self, std::move(staging));
          },
          py::arg("timeout_ms"))
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
      .def_property_readonly("is_deterministic", &Device::is_deterministic)
      .def_property_readonly("stream_count", &Device::stream_count)
      .def_property_readonly("leased_stream_count", &Device::leased_stream_count);
}
