// Stagings for Python: tensors of one call that stay on the device between its messages.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "device.h"

namespace aclgrad {

// Keeps the device alive. Destroy it with the GIL held.
class HeldStaging {
 public:
  HeldStaging(pybind11::object device, StagingHandle staging)
      : device_(std::move(device)), staging_(std::move(staging)) {}
  ~HeldStaging();
  HeldStaging(const HeldStaging&) = delete;
  HeldStaging& operator=(const HeldStaging&) = delete;

  [[nodiscard]] Staging& staging() const noexcept { return *staging_; }

 private:
  pybind11::object device_;
  StagingHandle staging_;
};

struct StagedTensor {
  std::shared_ptr<HeldStaging> held;
  std::size_t number;
  std::size_t size_bytes;

  [[nodiscard]] void* address() const { return held->staging().address(number); }
};

}  // namespace aclgrad
