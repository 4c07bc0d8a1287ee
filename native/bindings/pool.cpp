#include <pybind11/pybind11.h>

#include "bindings.h"
#include "memory_pool.h"

namespace py = pybind11;

namespace aclgrad {

void BindPool(py::module_& module) {
  py::class_<PoolStatistics>(module, "PoolStatistics")
      .def_readonly("allocated_bytes", &PoolStatistics::allocated_bytes)
      .def_readonly("reserved_bytes", &PoolStatistics::reserved_bytes)
      .def_readonly("peak_allocated_bytes", &PoolStatistics::peak_allocated_bytes)
      .def_readonly("peak_reserved_bytes", &PoolStatistics::peak_reserved_bytes)
      .def_readonly("limit_bytes", &PoolStatistics::limit_bytes)
      .def_readonly("largest_free_bytes", &PoolStatistics::largest_free_bytes)
      .def_readonly("allocation_count", &PoolStatistics::allocation_count)
      .def_readonly("hit_count", &PoolStatistics::hit_count)
      .def_readonly("retry_count", &PoolStatistics::retry_count)
      .def_readonly("out_of_memory_count", &PoolStatistics::out_of_memory_count);
}

}  // namespace aclgrad
