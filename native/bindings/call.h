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
using Output = std::variant<const ReplyPart*, const StagedTensor*>;
// Symbol, inputs, attributes, shape and aclDataType of the output, where it goes, and the inputs that are prefixes.
using CallArguments =
    std::tuple<std::string, std::vector<Input>, std::vector<Attribute>, Shape, int, Output, std::vector<std::size_t>>;

// Runs an operator. Throws what Device::Execute throws.
void Execute(Device& device, const CallArguments& arguments, int32_t timeout_ms);

// Runs many; returns the exception of each that failed, and None for the others.
[[nodiscard]] pybind11::list ExecuteAll(Device& device, const std::vector<CallArguments>& calls, int32_t timeout_ms);

}  // namespace aclgrad
