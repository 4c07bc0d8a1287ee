// The Python module: converts and submits. Only opening and closing a device wait for it.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "acl_library.h"
#include "bindings.h"
#include "fault_class.h"
#include "operators.h"

namespace py = pybind11;
using aclgrad::AclLibrary;

namespace {

// Releases the GIL while the runtime ends, which may take seconds. The last owner may be a closing device, which does
// not have it.
struct FinalizeWithoutGil {
  void operator()(const AclLibrary* library) const {
    std::optional<py::gil_scoped_release> release;
    if (PyGILState_GetThisThreadState() != nullptr && PyGILState_Check() != 0) release.emplace();
    delete library;
  }
};

}  // namespace

PYBIND11_MODULE(_native, module) {
  aclgrad::BindErrors(module);
  module.def(
      "fault_class", [](int code) { return aclgrad::FaultClassName(aclgrad::ClassifyFault(code)); }, py::arg("code"));
  module.def("operator_symbols", &aclgrad::OperatorSymbols);
  aclgrad::BindInputChecks(module);
  aclgrad::BindWire(module);

  py::class_<AclLibrary, std::shared_ptr<AclLibrary>>(module, "AclLibrary")
      .def(py::init([](const std::vector<std::pair<std::string, bool>>& files, std::optional<std::string> config_path) {
             std::vector<aclgrad::LibraryFile> libraries;
             for (const auto& [path, required] : files) libraries.push_back({path, required});
             const py::gil_scoped_release release;
             return std::shared_ptr<AclLibrary>(new AclLibrary(libraries, config_path), FinalizeWithoutGil{});
           }),
           py::arg("files"), py::arg("config_path") = std::nullopt)
      .def_property_readonly("files", &AclLibrary::files)
      .def_property_readonly("is_host", &AclLibrary::is_host)
      .def_property_readonly("host_pointers", &AclLibrary::host_pointers)
      // The driver may hang: nothing else is to stop then.
      .def("device_count", &AclLibrary::DeviceCount, py::call_guard<py::gil_scoped_release>())
      .def("soc_name",
           [](const AclLibrary& library) {
             std::string name;
             {
               const py::gil_scoped_release release;
               name = library.SocName();
             }
             return aclgrad::TextOf(name);
           })
      .def("version", &AclLibrary::Version, py::call_guard<py::gil_scoped_release>());

  aclgrad::DeviceClass device = aclgrad::BindDevice(module);
  aclgrad::BindStaging(module, device);
  aclgrad::BindStagedCopies(device);
  aclgrad::BindCallTemplate(module);
  aclgrad::BindCalls(module, device);
  aclgrad::BindGroups(module, device);
}
