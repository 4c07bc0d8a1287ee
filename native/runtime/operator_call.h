// One operator call: its form, which other calls share, and the places of its tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "acl_library.h"
#include "arguments.h"
#include "constants.h"
#include "view.h"

namespace aclgrad {

// The kinds of input. An absent one is optional, and null for the operator. The operator does not read the values of a
// shape-only one, which are unspecified on the device. If it does not touch its memory at all, it gets that of an
// output of the same size: a smaller input would end, with the bytes behind it that kernels may touch, amid the output.
struct Absent {};
struct ShapeOnly {
  std::optional<std::size_t> output;  // whose memory it is
};
struct HostBytes {
  const void* data;
  std::size_t size_bytes;
};
struct DeviceBytes {
  void* address;
  std::size_t size_bytes;
};

// A part of the memory that the calls of a lane have in common: see group.h.
struct Place {
  std::size_t offset;
  std::size_t size_bytes;
};

using InputBytes = std::variant<ShapeOnly, HostBytes, DeviceBytes, Absent, Place, Constant>;

struct OutputBytes {
  std::size_t size_bytes;
  // Memory of the host that gets it once the stream is done; null if it stays on the device, or nobody wants it.
  void* host = nullptr;
  // Gets it as well, unless it is null.
  void* host_copy = nullptr;
  // Where the operator writes it, unless the execution has memory for it.
  std::variant<std::monostate, DeviceBytes, Place> target = {};
};

// The tensor that an operator gets in the place of an input which it would write: over the memory of an output, which
// begins as a copy of the input.
struct InPlace {
  std::size_t output;
  std::vector<int64_t> shape;
  std::optional<View> view;
};

struct InputForm {
  std::vector<int64_t> shape;
  aclDataType dtype;
  // Host bytes may be fewer than the shape needs; the rest has unspecified values, such as the part of a mask that no
  // device reads.
  bool is_prefix = false;
  // How the tensor lies over its bytes, unless it is row-major.
  std::optional<View> view = std::nullopt;
  // The operator gets a row-major copy, which the device makes, and not the view.
  bool is_copied = false;
  std::optional<InPlace> in_place = std::nullopt;

  [[nodiscard]] bool is_strided() const { return view && !is_copied; }
};

// What becomes of an output. An operator may succeed without writing all of a returned one, unless there is proof that
// it always does. Nobody wants the last two: an operator that has to write the output gets memory for it.
enum class OutputUse { kReturned, kReturnedWhole, kScratch, kNull };

struct OutputForm {
  std::vector<int64_t> shape;
  aclDataType dtype;
  OutputUse use = OutputUse::kReturned;

  [[nodiscard]] bool is_returned() const { return use == OutputUse::kReturned || use == OutputUse::kReturnedWhole; }
};

// What is the same in calls that differ only in their bytes. Inputs, attributes and outputs are in aclnn order, each
// kind by itself.
struct CallForm {
  CallForm(std::string symbol, std::vector<InputForm> inputs, std::vector<Attribute> attributes,
           std::vector<OutputForm> outputs, bool is_spatial, bool is_planned_alone);

  const std::string symbol;  // of phase 2
  const std::vector<InputForm> inputs;
  const std::vector<Attribute> attributes;
  const std::vector<OutputForm> outputs;
  const bool is_spatial;        // tensors of rank 3 to 5 have a batch, channels and spatial axes
  const bool is_planned_alone;  // phase 1 is not safe in several threads at once
  const std::string key;        // made of what an executor depends on
};

// The memory that it views must live as long as the call: an abandoned execution keeps its call until the device is
// done.
struct OperatorCall {
  std::shared_ptr<const CallForm> form;
  std::vector<InputBytes> inputs;
  std::vector<OutputBytes> outputs;
  std::size_t workspace_limit = SIZE_MAX;  // bytes that the operator may have as workspace
  bool is_empty = false;                   // an input is empty: the operator does not run, and outputs are zeros
  bool is_joined = false;                  // the output is the inputs, one behind the other
};

// Calls with the same key differ only in addresses, so they can share an executor. Everything else in an executor
// (formats, determinism, device, stream) is the same for all calls of a stream.
[[nodiscard]] std::string ExecutorKey(const OperatorCall& call);

// Whether the output is made of the inputs where they lie in the memory of a lane, so that nothing is left to do.
[[nodiscard]] bool HasJoinedInputs(const OperatorCall& call);

// Throws std::invalid_argument for an invalid shape or a size that overflows.
[[nodiscard]] std::size_t SizeBytes(const AclLibrary& library, const std::vector<int64_t>& shape, aclDataType dtype);

// Throws std::invalid_argument unless both are equal.
void ExpectSize(const char* tensor, std::size_t given_bytes, std::size_t needed_bytes);

}  // namespace aclgrad
