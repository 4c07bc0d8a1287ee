#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "acl_library.h"
#include "bindings.h"
#include "memory_pool.h"

namespace py = pybind11;

namespace aclgrad {
namespace {

// A pool that stands for itself: what tests and benchmarks look at. Streams are any numbers; 0 is none.
class StandalonePool {
 public:
  StandalonePool(std::shared_ptr<AclLibrary> library, const PoolOptions& options, bool is_pinned)
      : library_(std::move(library)),
        pool_(std::make_unique<MemoryPool>(
            *library_, is_pinned ? PinnedMemorySource(*library_) : DeviceMemorySource(*library_), options)) {
    library_->Check((*library_)->aclrtSetDevice(0), "aclrtSetDevice");
  }
  ~StandalonePool() {
    pool_.reset();
    static_cast<void>((*library_)->aclrtResetDevice(0));
  }
  StandalonePool(const StandalonePool&) = delete;
  StandalonePool& operator=(const StandalonePool&) = delete;

  [[nodiscard]] MemoryPool& pool() const { return *pool_; }

 private:
  std::shared_ptr<AclLibrary> library_;
  std::unique_ptr<MemoryPool> pool_;
};

aclrtStream StreamOf(uintptr_t number) { return reinterpret_cast<aclrtStream>(number); }

}  // namespace

void BindPool(py::module_& module) {
  py::class_<PoolStatistics>(module, "PoolStatistics")
      .def_readonly("allocated_bytes", &PoolStatistics::allocated_bytes)
      .def_readonly("active_bytes", &PoolStatistics::active_bytes)
      .def_readonly("reserved_bytes", &PoolStatistics::reserved_bytes)
      .def_readonly("peak_allocated_bytes", &PoolStatistics::peak_allocated_bytes)
      .def_readonly("peak_reserved_bytes", &PoolStatistics::peak_reserved_bytes)
      .def_readonly("limit_bytes", &PoolStatistics::limit_bytes)
      .def_readonly("largest_free_bytes", &PoolStatistics::largest_free_bytes)
      .def_readonly("workspace_bytes", &PoolStatistics::workspace_bytes)
      .def_readonly("allocation_count", &PoolStatistics::allocation_count)
      .def_readonly("hit_count", &PoolStatistics::hit_count)
      .def_readonly("retry_count", &PoolStatistics::retry_count)
      .def_readonly("out_of_memory_count", &PoolStatistics::out_of_memory_count);

  py::class_<PoolBlock>(module, "PoolBlock")
      .def_property_readonly("address",
                             [](const PoolBlock& block) { return reinterpret_cast<uintptr_t>(block.address()); })
      .def_property_readonly("capacity", &PoolBlock::capacity)
      .def(
          "release", [](PoolBlock& block, uintptr_t stream) { block.ReleaseOn(StreamOf(stream)); },
          py::arg("stream") = 0);

  py::class_<StandalonePool>(module, "MemoryPool")
      .def(py::init([](std::shared_ptr<AclLibrary> library, std::size_t limit_bytes,
                       std::optional<std::size_t> high_water_bytes, bool pass_through, bool is_pinned) {
             const PoolOptions options{limit_bytes, high_water_bytes.value_or(limit_bytes), pass_through};
             return std::make_unique<StandalonePool>(std::move(library), options, is_pinned);
           }),
           py::arg("library"), py::kw_only(), py::arg("limit_bytes"), py::arg("high_water_bytes") = std::nullopt,
           py::arg("pass_through") = false, py::arg("pinned") = false)
      .def(
          "allocate",
          [](StandalonePool& self, std::size_t size_bytes, uintptr_t stream) {
            return self.pool().Allocate(size_bytes, StreamOf(stream));
          },
          py::arg("size_bytes"), py::arg("stream") = 0, py::keep_alive<0, 1>())
      .def(
          "synchronized", [](StandalonePool& self, uintptr_t stream) { self.pool().Synchronized(StreamOf(stream)); },
          py::arg("stream"))
      .def("trim", [](StandalonePool& self) { self.pool().Trim(); })
      .def("statistics", [](const StandalonePool& self) { return self.pool().Statistics(); });
}

}  // namespace aclgrad
