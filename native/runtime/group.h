// Operator calls that run in one turn, some of which use the outputs of others.
#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <vector>

#include "operator_call.h"

namespace aclgrad {

struct GroupStep {
  std::shared_ptr<const OperatorCall> call;
  // Earlier steps of its lane whose outputs it uses.
  std::vector<std::size_t> needs;
  // Why it cannot run, and afterwards how it ended; null if all is well.
  std::exception_ptr error;
};

// Steps that are connected by references, in order. One stream runs them, one after the other, so a step may be given
// memory that an earlier one used, without waiting.
struct Lane {
  std::vector<std::size_t> steps;
  // One block for outputs that only steps of the lane read. A place in it is 64-byte aligned, and takes its size
  // rounded up to 32 and 32 bytes more, which kernels may touch. A step's output shares none with its inputs: it is
  // filled before they are read.
  std::size_t arena_bytes = 0;
};

// Each step is in one lane.
struct Group {
  std::vector<GroupStep> steps;
  std::vector<Lane> lanes;
};

}  // namespace aclgrad
