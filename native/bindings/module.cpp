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
#include "errors.h"
#include "fault_class.h"

namespace py = pybind11;
using aclgrad::AclLibrary;
using aclgrad::Device;
using aclgrad::ReplyBuffer;
using aclgrad::ReplyPart;

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

}  // namespace

PYBIND11_MODULE(_native, module) {
  aclgrad::BindErrors(module);
  module.def(
      "fault_class", [](int code) { return aclgrad::FaultClassName(aclgrad::ClassifyFault(code)); }, py::arg("code"));
  aclgrad::BindAllocator(module);
  aclgrad::BindValues(module);
  aclgrad::BindPool(module);
  aclgrad::BindStaging(module);
  aclgrad::BindWire(module);

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

  py::class_<ReplyPart>(module, "ReplyPart").def("fill_with_zeros", &ReplyPart::FillWithZeros);

  py::class_<ReplyBuffer, std::shared_ptr<ReplyBuffer>>(module, "ReplyBuffer")
      .def(py::init<const std::vector<ReplyBuffer::Section>&>(), py::arg("sections"))
      .def("parts", &ReplyBuffer::Parts)
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
      .def("execute", &aclgrad::Execute, py::arg("call"), py::arg("timeout_ms"))
      .def("execute_all", &aclgrad::ExecuteAll, py::arg("calls"), py::arg("timeout_ms"))
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
      .def("release_finished", &Device::ReleaseFinished, py::call_guard<py::gil_scoped_release>())
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
