// One operator call: the operator, its attributes, and the places of its tensors.
#pragma once

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

#include "arguments.h"

namespace aclgrad {

// The kinds of input. The operator does not read the values of a shape-only one, which are unspecified on the device.
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
  std::variant<ShapeOnly, HostBytes, DeviceBytes> values{};
};

struct OutputView {
  std::vector<int64_t> shape;
  aclDataType dtype;
  void* address;
  std::size_t size_bytes;
  bool is_on_device = false;  // and stays there
};

// Inputs and attributes in aclnn order. The memory that it views must live as long as the call: an abandoned execution
// keeps its call until the device is done.
struct OperatorCall {
  std::string symbol;  // of phase 2
  std::vector<InputView> inputs;
  std::vector<Attribute> attributes;
  OutputView output;
};

}  // namespace aclgrad
