// The runtime's exceptions as Python's.
#pragma once

#include <pybind11/pybind11.h>

#include <exception>

namespace aclgrad {

void BindErrors(pybind11::module_& module);

// Returns the Python exception for one that was caught.
[[nodiscard]] pybind11::object ToPython(const std::exception_ptr& error);

}  // namespace aclgrad
