// The parts of the Python module, one for each file, and what they share.
#pragma once

#include <pybind11/pybind11.h>

#include <exception>
#include <string_view>

#include "served_device.h"

namespace aclgrad {

// A device library's text, which may be in any encoding and cut anywhere.
[[nodiscard]] pybind11::object TextOf(std::string_view text);

// Returns the Python exception for a caught C++ exception.
[[nodiscard]] pybind11::object ToPython(const std::exception_ptr& error);

void BindErrors(pybind11::module_& module);
// The scan of serialized messages.
void BindWire(pybind11::module_& module);
// Value checks and mask encodings, see input_checks/.
void BindInputChecks(pybind11::module_& module);

// Completions, Device and what it counts; the parts below add methods to Device.
[[nodiscard]] DeviceClass BindDevice(pybind11::module_& module);
// StagedTensor, and the method that makes them.
void BindStaging(pybind11::module_& module, DeviceClass& device);
// The methods that copy.
void BindStagedCopies(DeviceClass& device);
void BindCallTemplate(pybind11::module_& module);
// Cancellation, and the methods that run one operator.
void BindCalls(pybind11::module_& module, DeviceClass& device);
// Place, and the method that runs the steps of a group.
void BindGroups(pybind11::module_& module, DeviceClass& device);

}  // namespace aclgrad
