// The parts of the Python module.
#pragma once

#include <pybind11/pybind11.h>

namespace aclgrad {

// The statistics of memory pools.
void BindPool(pybind11::module_& module);

// The scan of serialized messages.
void BindWire(pybind11::module_& module);

// Value checks and mask encodings, see input_checks/.
void BindInputChecks(pybind11::module_& module);

}  // namespace aclgrad
