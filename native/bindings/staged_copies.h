// Copies between Python's memory and staged tensors, which one piece of work makes one after the other.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <tuple>
#include <vector>

#include "buffers.h"
#include "held_call.h"
#include "held_staging.h"

namespace aclgrad {

// Bytes for a tensor, from this offset on.
using Write = std::tuple<StagedTensor, std::size_t, pybind11::object>;
// So many bytes of a tensor, from this offset on, behind a prefix.
using Read = std::tuple<StagedTensor, std::size_t, pybind11::bytes, std::size_t>;

// Both throw ValueError for a tensor that is closed, or that another device has. Create and destroy them with the GIL
// held. Run has no GIL; it throws NotBegun before the first copy that its caller no longer waits for, and what
// Staging::Write throws.
class StagedWrites {
 public:
  StagedWrites(const ServedDevice& served, const std::vector<Write>& writes);
  void Run(const Cancellation& cancellation, Deadline deadline) const;

 private:
  struct Copy {
    StagedTensor tensor;
    std::size_t offset;
    BufferView bytes;
  };

  std::vector<Copy> copies_;
};

class StagedReads {
 public:
  StagedReads(const ServedDevice& served, const std::vector<Read>& reads);
  void Run(const Cancellation& cancellation, Deadline deadline) const;

  // A bytes object for each, once Run has returned.
  [[nodiscard]] pybind11::list Messages() const;

 private:
  struct Copy {
    StagedTensor tensor;
    std::size_t offset;
    std::size_t size_bytes;
    ReplyBuffer message;
  };

  std::vector<Copy> copies_;
};

}  // namespace aclgrad
