// Operator calls from Python.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "buffers.h"
#include "device.h"
#include "staging.h"

namespace aclgrad {

using Shape = std::vector<int64_t>;
// Shape, aclDataType, and a StagedTensor, a buffer or None.
using Input = std::tuple<Shape, int, std::optional<pybind11::object>>;
using Output = std::variant<const ReplyBuffer*, const StagedTensor*>;

// Runs an operator. Throws what Device::Execute throws.
void Execute(Device& device, std::string symbol, const std::vector<Input>& inputs, std::vector<Attribute> attributes,
             const Shape& output_shape, int output_dtype, const Output& output, int32_t timeout_ms,
             const std::vector<std::size_t>& prefixes);

}  // namespace aclgrad
