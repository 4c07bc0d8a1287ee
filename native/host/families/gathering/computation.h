// What is taken from a tensor, or added to it, by positions along one of its axes. A position out of range faults,
// where a device would read or write out of bounds.
#pragma once

#include <cstdint>

#include "families/gathering/row_blocks.h"
#include "plan/plan.h"
#include "tensors/view_walk.h"

namespace acl_host {

// The inputs of all kernels are self and index, and what is added.

// Slices of the tensor outer x positions x inner, each at one of count positions.
struct Slices {
  const char* name;  // of the operator and its index
  aclDataType type;
  aclDataType index_type;
  int64_t outer;
  int64_t positions;
  int64_t inner;
  int64_t count;
};

template <VectorLevel>
struct TakeSlices {
  static void Run(const Slices& slices, const KernelArguments& arguments);
};

// Elements, each at a position of its own. Positions are steps through self.
struct TakenElements {
  const char* name;
  aclDataType type;
  aclDataType index_type;
  int64_t positions;
  int64_t position_step;
  ViewWalk<3> walk;  // self, index and out; self stands still along the axis of positions
};

template <VectorLevel>
struct TakeElements {
  static void Run(const TakenElements& taken, const KernelArguments& arguments);
};

// What slices are multiplied by: for integers, and for others.
struct Alpha {
  int64_t integer;
  double real;
};

// Sums begin as self. What is added to one is added in the order of the positions, in float64 or in integers that wrap
// around, and a sum is rounded once.
struct AddedSlices {
  Slices slices;
  Alpha alpha;

  [[nodiscard]] RowBlocks blocks() const { return {slices.count, slices.positions, slices.inner}; }
};

// The scratch has numbers() of the blocks, of 64 bits each, if that is not 0.
template <VectorLevel>
struct AddSlices {
  static void Run(const AddedSlices& added, const KernelArguments& arguments);
};

// Of an axis of positions.
struct IndexSteps {
  int64_t size;
  int64_t index;
  int64_t source;
};

struct AddedElements {
  const char* name;
  aclDataType type;
  aclDataType index_type;
  int64_t positions;
  int64_t position_step;
  IndexSteps along;
  ViewWalk<3> walk;     // index, source and self, along all axes but that of positions
  uint64_t copy_bytes;  // of self, if its elements are not all gone through; otherwise 0

  // Sums of so many lines of positions are made at a time.
  [[nodiscard]] static int64_t LinesOf(int64_t positions) {
    return std::max<int64_t>(RowBlocks::kTileElements / positions, 1);
  }
  [[nodiscard]] RowBlocks blocks() const { return {along.size, positions, 1}; }
};

// The same scratch. With more than one block, lines are made one after the other.
template <VectorLevel>
struct AddElements {
  static void Run(const AddedElements& added, const KernelArguments& arguments);
};

}  // namespace acl_host
