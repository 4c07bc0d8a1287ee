// Converts the runtime's exceptions to Python exceptions.
#pragma once

#include <pybind11/pybind11.h>

#include <exception>

namespace aclgrad {

void BindErrors(pybind11::module_& module);

// Returns the Python exception for a caught C++ exception.
[[nodiscard]] pybind11::object ToPython(const std::exception_ptr& error);

}  // namespace aclgrad
