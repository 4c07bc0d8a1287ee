// Stagings for Python: tensors of one call that stay on the device between the call's messages.
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
// when the staging's memory is free.
class HeldStaging {
 public:
  HeldStaging(pybind11::object device, pybind11::object released_ticket)
      : owner_(std::move(device)),
        device_(owner_.cast<ServedDevice&>()),
        released_(std::make_shared<const TicketReturn>(device_.completions, std::move(released_ticket))) {}
  ~HeldStaging();
  HeldStaging(const HeldStaging&) = delete;
  HeldStaging& operator=(const HeldStaging&) = delete;

  // Makes the staging that Hold takes.
  [[nodiscard]] StagingHandle Make() const { return device_.device.Stage(released_); }
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
  std::size_t number;
  std::size_t size_bytes;

  [[nodiscard]] void* address() const { return held->staging().address(number); }
  [[nodiscard]] bool is_on_host() const { return held->staging().is_on_host(number); }
};

}  // namespace aclgrad
