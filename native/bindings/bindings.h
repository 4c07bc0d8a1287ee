// The parts of the Python module, one for each file.
#pragma once

#include <pybind11/pybind11.h>

#include "served_device.h"

namespace aclgrad {

void BindErrors(pybind11::module_& module);
// The statistics of memory pools.
void BindPool(pybind11::module_& module);
// The scan of serialized messages.
void BindWire(pybind11::module_& module);
// Value checks and mask encodings, see input_checks/.
void BindInputChecks(pybind11::module_& module);

// Completions and Device; the parts below add methods to Device.
[[nodiscard]] DeviceClass BindDevice(pybind11::module_& module);
// StagedTensor, and the method that makes them.
void BindStaging(pybind11::module_& module, DeviceClass& device);
// The methods that copy.
void BindStagedCopies(DeviceClass& device);
void BindCallTemplate(pybind11::module_& module);
// Cancellation, and the methods that run an operator.
void BindCalls(pybind11::module_& module, DeviceClass& device);
// The method that runs many operators.
void BindBatches(DeviceClass& device);

}  // namespace aclgrad
