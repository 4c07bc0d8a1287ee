// The parts that the Python module is made of.
#pragma once

#include <pybind11/pybind11.h>

namespace aclgrad {

// Value checks and mask encodings, see runtime/values.h.
void BindValues(pybind11::module_& module);

}  // namespace aclgrad
