// Converts the runtime's exceptions to Python exceptions.
#pragma once

#include <pybind11/pybind11.h>

#include <exception>
#include <string_view>

namespace aclgrad {

// A device library's text, which may be in any encoding and cut anywhere.
[[nodiscard]] pybind11::object TextOf(std::string_view text);

// Returns the Python exception for a caught C++ exception.
[[nodiscard]] pybind11::object ToPython(const std::exception_ptr& error);

}  // namespace aclgrad
