#include "errors.h"

#include <new>
#include <stdexcept>

#include "error.h"

namespace py = pybind11;

namespace aclgrad {
namespace {

// The types live as long as the module, which is never unloaded.
py::handle library_error_type;
py::handle acl_error_type;
py::handle out_of_memory_type;

py::object FromAcl(const py::handle& type, const AclError& error) {
  py::object instance = type(error.what());
  instance.attr("code") = error.code();
  instance.attr("fault") = FaultClassName(error.fault());
  instance.attr("call") = error.call();
  instance.attr("detail") = error.detail();
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

py::object ToPython(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const OutOfMemory& caught) {
    return FromOutOfMemory(caught);
  } catch (const AclError& caught) {
    return FromAcl(acl_error_type, caught);
  } catch (const LibraryError& caught) {
    return library_error_type(caught.what());
  } catch (const std::bad_alloc&) {
    return py::handle(PyExc_MemoryError)();
  } catch (const std::invalid_argument& caught) {
    return py::handle(PyExc_ValueError)(caught.what());
  } catch (const std::out_of_range& caught) {
    return py::handle(PyExc_IndexError)(caught.what());
  } catch (const std::exception& caught) {
    return py::handle(PyExc_RuntimeError)(caught.what());
  }
}

void BindErrors(py::module_& module) {
  library_error_type = py::exception<LibraryError>(module, "LibraryError", PyExc_RuntimeError).release();
  acl_error_type = py::exception<AclError>(module, "AclError", PyExc_RuntimeError).release();
  out_of_memory_type = py::exception<OutOfMemory>(module, "OutOfMemoryError", acl_error_type).release();
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const AclError&) {
      const py::object ours = ToPython(std::current_exception());
      PyErr_SetObject(py::type::of(ours).ptr(), ours.ptr());
    } catch (const LibraryError& error) {
      PyErr_SetString(library_error_type.ptr(), error.what());
    }
  });
}

}  // namespace aclgrad
