// Operator calls from Python: submitted, run by a device's threads, and returned by the completions.
#pragma once

#include <pybind11/pybind11.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "device.h"
#include "gathering.h"
#include "served_device.h"
#include "value_check.h"

namespace aclgrad {

// The common part of all calls of one form: everything except the addresses of their bytes.
struct CallTemplate {
  OperatorCall call;                                 // without data
  std::vector<std::optional<ValueCheck>> checks;     // one for each input
  std::vector<std::optional<Gathering>> gatherings;  // of the inputs that are made row-major before they are checked
  bool is_empty = false;                             // an input is empty: the operator does not run, outputs are zeros
  std::vector<std::string> reply_prefixes;           // what stands before each output in a reply
  mutable std::atomic<bool> is_short{false};  // a call of this form was run, and the library said that it is short
};

// The values of an input break its check.
class InvalidInput : public std::runtime_error {
 public:
  InvalidInput(std::size_t input_index, const std::string& message) : std::runtime_error(message), input(input_index) {}
  const std::size_t input;
  // The work that the input asks for and the limit, if it is too much.
  std::optional<double> work;
  std::optional<double> limit;
};

}  // namespace aclgrad
