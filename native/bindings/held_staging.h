// Stagings for Python: tensors that stay on the device between the messages of a call.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <memory>
#include <utility>

#include "device.h"
#include "served_device.h"

namespace aclgrad {

// A place for a staging, filled when the device has made one. Keeps the device alive. Create and destroy it with the
// GIL held: the device's threads then release the staging, if there is one. The completions always return the ticket,
// when the memory of every staging is free that has it.
class HeldStaging {
 public:
  HeldStaging(pybind11::object device, std::shared_ptr<const TicketReturn> released)
      : owner_(std::move(device)), device_(owner_.cast<ServedDevice&>()), released_(std::move(released)) {}
  ~HeldStaging();
  HeldStaging(const HeldStaging&) = delete;
  HeldStaging& operator=(const HeldStaging&) = delete;

  // Makes the staging that Hold takes.
  [[nodiscard]] StagingHandle Make(std::size_t size_bytes, Staging::Memory kind) const {
    return device_.device.Stage(size_bytes, kind, released_);
  }
  void Hold(StagingHandle staging) noexcept { staging_ = std::move(staging); }
  [[nodiscard]] Staging& staging() const noexcept { return *staging_; }
  [[nodiscard]] ServedDevice& device() const noexcept { return device_; }

 private:
  const pybind11::object owner_;
  ServedDevice& device_;
  StagingHandle staging_{nullptr, StagingDeleter{nullptr}};
  const std::shared_ptr<const TicketReturn> released_;
};

struct StagedTensor {
  std::shared_ptr<HeldStaging> held;
  std::size_t size_bytes;  // also once it is closed

  [[nodiscard]] void* address() const { return held->staging().address(); }
  [[nodiscard]] bool is_on_host() const { return held->staging().is_on_host(); }
};

}  // namespace aclgrad
