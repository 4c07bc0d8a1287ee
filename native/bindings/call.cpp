#include "call.h"

#include <exception>
#include <memory>
#include <utility>

#include "errors.h"

namespace py = pybind11;

namespace aclgrad {
namespace {

// A call with the Python objects whose memory it views. The device may hold on to it after the caller has gone, so it
// takes the GIL where it dies.
struct HeldCall {
  OperatorCall call;
  std::vector<BufferView> buffers;
  std::vector<std::shared_ptr<HeldStaging>> stagings;
  py::object output;
};

std::shared_ptr<HeldCall> MakeHeldCall() {
  const auto delete_with_gil = [](HeldCall* held) {
    const py::gil_scoped_acquire acquire;
    delete held;
  };
  return {new HeldCall{}, delete_with_gil};
}

void AddInput(HeldCall& held, const Input& input) {
  const auto& [shape, dtype, data] = input;
  InputView view{shape, static_cast<aclDataType>(dtype)};
  if (data && py::isinstance<StagedTensor>(*data)) {
    const auto& tensor = data->cast<const StagedTensor&>();
    held.stagings.push_back(tensor.held);
    view.device_data = tensor.address();
    view.size_bytes = tensor.size_bytes;
  } else if (data) {
    const BufferView& buffer = held.buffers.emplace_back(*data, /*writable=*/false);
    view.data = buffer.data();
    view.size_bytes = buffer.size_bytes();
  }
  held.call.inputs.push_back(std::move(view));
}

void SetOutput(HeldCall& held, const Output& output) {
  OutputView& view = held.call.output;
  if (const auto* staged = std::get_if<const StagedTensor*>(&output)) {
    held.stagings.push_back((*staged)->held);
    view.device_data = (*staged)->address();
    view.size_bytes = (*staged)->size_bytes;
    return;
  }
  const ReplyPart& part = *std::get<const ReplyPart*>(output);
  held.output = part.reply().bytes();
  view.data = part.data();
  view.size_bytes = part.size_bytes();
}

std::shared_ptr<const OperatorCall> HoldCall(const CallArguments& arguments) {
  const auto& [symbol, inputs, attributes, output_shape, output_dtype, output, prefixes] = arguments;
  const auto held = MakeHeldCall();
  OperatorCall& call = held->call;
  call.symbol = symbol;
  call.attributes = attributes;
  for (const Input& input : inputs) AddInput(*held, input);
  for (const std::size_t index : prefixes) call.inputs.at(index).is_prefix = true;
  call.output.shape = output_shape;
  call.output.dtype = static_cast<aclDataType>(output_dtype);
  SetOutput(*held, output);
  return {held, &call};
}

}  // namespace

// The calls are kept here as well: what was not given up dies here, with the GIL, and not inside with a change of the
// GIL.

void Execute(Device& device, const CallArguments& arguments, int32_t timeout_ms) {
  const auto call = HoldCall(arguments);
  const py::gil_scoped_release release;
  device.Execute(call, timeout_ms);
}

py::list ExecuteAll(Device& device, const std::vector<CallArguments>& calls, int32_t timeout_ms) {
  std::vector<std::shared_ptr<const OperatorCall>> held;
  held.reserve(calls.size());
  for (const CallArguments& each : calls) held.push_back(HoldCall(each));
  const std::vector<std::exception_ptr> errors = [&] {
    const py::gil_scoped_release release;
    return device.ExecuteAll(held, timeout_ms);
  }();
  py::list results;
  for (const std::exception_ptr& error : errors) results.append(error ? ToPython(error) : py::none());
  return results;
}

}  // namespace aclgrad
