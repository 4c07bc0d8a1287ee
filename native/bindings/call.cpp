#include "call.h"

#include <memory>
#include <utility>

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
  const ReplyBuffer& reply = *std::get<const ReplyBuffer*>(output);
  held.output = reply.bytes();
  view.data = reply.payload();
  view.size_bytes = reply.payload_bytes();
}

}  // namespace

void Execute(Device& device, std::string symbol, const std::vector<Input>& inputs, std::vector<Attribute> attributes,
             const Shape& output_shape, int output_dtype, const Output& output, int32_t timeout_ms,
             const std::vector<std::size_t>& prefixes) {
  // Kept here as well: if nothing was given up it dies here, with the GIL, and not inside with a change of the GIL.
  const auto held = MakeHeldCall();
  OperatorCall& call = held->call;
  call.symbol = std::move(symbol);
  call.attributes = std::move(attributes);
  for (const Input& input : inputs) AddInput(*held, input);
  for (const std::size_t index : prefixes) call.inputs.at(index).is_prefix = true;
  call.output.shape = output_shape;
  call.output.dtype = static_cast<aclDataType>(output_dtype);
  SetOutput(*held, output);
  const py::gil_scoped_release release;
  device.Execute({held, &call}, timeout_ms);
}

}  // namespace aclgrad
