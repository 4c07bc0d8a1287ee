// One operator call: the operator, its attributes, and the places of its tensors.
#pragma once

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "arguments.h"

namespace aclgrad {

// The kinds of input. An absent one is optional, and null for the operator. The operator does not read the values of a
// shape-only one, which are unspecified on the device.
struct Absent {};
struct ShapeOnly {};
struct HostBytes {
  const void* data;
  std::size_t size_bytes;
};
struct DeviceBytes {
  void* address;
  std::size_t size_bytes;
};

struct InputView {
  std::vector<int64_t> shape;
  aclDataType dtype;
  // Host bytes may be fewer than the shape needs; the rest has unspecified values, such as the part of a mask that no
  // device reads.
  bool is_prefix = false;
  std::variant<ShapeOnly, HostBytes, DeviceBytes, Absent> values{};

  [[nodiscard]] bool is_absent() const { return std::holds_alternative<Absent>(values); }
};

// What becomes of an output. Nobody wants the last two: an operator that has to write the output gets memory for it.
enum class OutputUse { kReturned, kScratch, kNull };

struct OutputView {
  std::vector<int64_t> shape;
  aclDataType dtype;
  void* address;  // null unless it is returned
  std::size_t size_bytes;
  bool is_on_device = false;  // and stays there
  OutputUse use = OutputUse::kReturned;

  [[nodiscard]] bool is_returned() const { return use == OutputUse::kReturned; }
};

// Inputs, attributes and outputs in aclnn order, each kind by itself. The memory that it views must live as long as the
// call: an abandoned execution keeps its call until the device is done.
struct OperatorCall {
  std::string symbol;  // of phase 2
  std::vector<InputView> inputs;
  std::vector<Attribute> attributes;
  std::vector<OutputView> outputs;
  bool is_planned_alone = false;  // phase 1 is not safe in several threads at once
  bool is_spatial = true;         // tensors of rank 3 to 5 have a batch, channels and spatial axes
};

}  // namespace aclgrad
