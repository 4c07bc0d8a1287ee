#include <pybind11/stl.h>

#include <new>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "bindings.h"
#include "error.h"
#include "held_call.h"
#include "value_check.h"

namespace py = pybind11;

namespace aclgrad {
namespace {

// The types live as long as the module, which is never unloaded.
py::handle library_error_type;
py::handle acl_error_type;
py::handle out_of_memory_type;
py::handle invalid_value_type;
py::handle workspace_error_type;
py::handle input_failed_type;

py::object FromAcl(const py::handle& type, const AclError& error) {
  py::object instance = type(TextOf(error.what()));
  instance.attr("code") = error.code();
  instance.attr("fault") = FaultClassName(error.fault());
  instance.attr("call") = error.call();
  instance.attr("detail") = TextOf(error.detail());
  return instance;
}

py::object FromOutOfMemory(const OutOfMemory& error) {
  py::object instance = FromAcl(out_of_memory_type, error);
  instance.attr("size_bytes") = error.size_bytes();
  instance.attr("allocated_bytes") = error.allocated_bytes();
  instance.attr("limit_bytes") = error.limit_bytes();
  return instance;
}

}  // namespace

py::object TextOf(std::string_view text) {
  PyObject* decoded = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
  if (decoded == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(decoded);
}

py::object ToPython(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const OutOfMemory& caught) {
    return FromOutOfMemory(caught);
  } catch (const AclError& caught) {
    return FromAcl(acl_error_type, caught);
  } catch (const LibraryError& caught) {
    return library_error_type(TextOf(caught.what()));
  } catch (const InvalidInput& caught) {
    py::object instance = invalid_value_type(caught.what());
    instance.attr("input") = caught.input;
    instance.attr("work") = caught.work;
    instance.attr("limit") = caught.limit;
    return instance;
  } catch (const InvalidValue& caught) {
    return invalid_value_type(caught.what());
  } catch (const TooMuchWork& caught) {
    return invalid_value_type(caught.what());
  } catch (const WorkspaceTooLarge& caught) {
    py::object instance = workspace_error_type(caught.what());
    instance.attr("size_bytes") = caught.size_bytes;
    return instance;
  } catch (const InputFailed& caught) {
    py::object instance = input_failed_type(caught.what());
    instance.attr("step") = caught.step;
    return instance;
  } catch (const std::system_error& caught) {
    return py::handle(PyExc_OSError)(caught.code().value(), TextOf(caught.what()));
  } catch (const std::bad_alloc&) {
    return py::handle(PyExc_MemoryError)();
  } catch (const std::invalid_argument& caught) {
    return py::handle(PyExc_ValueError)(caught.what());
  } catch (const std::out_of_range& caught) {
    return py::handle(PyExc_IndexError)(caught.what());
  } catch (const std::exception& caught) {
    return py::handle(PyExc_RuntimeError)(TextOf(caught.what()));
  } catch (...) {
    return py::handle(PyExc_RuntimeError)("an exception of an unknown type");
  }
}

void BindErrors(py::module_& module) {
  library_error_type = py::exception<LibraryError>(module, "LibraryError", PyExc_RuntimeError).release();
  acl_error_type = py::exception<AclError>(module, "AclError", PyExc_RuntimeError).release();
  out_of_memory_type = py::exception<OutOfMemory>(module, "OutOfMemoryError", acl_error_type).release();
  invalid_value_type = py::exception<InvalidInput>(module, "InvalidValueError", PyExc_ValueError).release();
  workspace_error_type = py::exception<WorkspaceTooLarge>(module, "WorkspaceError", PyExc_RuntimeError).release();
  input_failed_type = py::exception<InputFailed>(module, "InputFailedError", PyExc_RuntimeError).release();
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const py::error_already_set&) {
      throw;
    } catch (const py::builtin_exception&) {
      throw;
    } catch (...) {
      const py::object error = ToPython(std::current_exception());
      PyErr_SetObject(py::type::of(error).ptr(), error.ptr());
    }
  });
}

}  // namespace aclgrad
