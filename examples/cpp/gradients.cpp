// Makes a small call, a program and a call above the message limit, and checks every gradient by plain arithmetic.
//
//     gradients [HOST:PORT]
#include <chrono>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "client.h"
#include "errors.h"

namespace {

using aclgrad::v1::ExecuteOperatorRequest;
using aclgrad::v1::Tensor;

constexpr int64_t kScale = 2;

// Without data, a tensor is shape-only: enough for inputs of which the operator needs only the shape.
Tensor& AddInput(ExecuteOperatorRequest& call, const std::string& name, const std::vector<int64_t>& shape,
                 aclgrad::v1::DataType type = aclgrad::v1::DATA_TYPE_FLOAT32) {
  Tensor& tensor = *call.add_inputs();
  tensor.set_name(name);
  tensor.set_data_type(type);
  tensor.mutable_shape()->Assign(shape.begin(), shape.end());
  return tensor;
}

void SetInts(ExecuteOperatorRequest& call, const std::string& name, const std::vector<int64_t>& values) {
  (*call.mutable_attributes())[name].mutable_ints_value()->mutable_values()->Assign(values.begin(), values.end());
}

// Elements are row-major and little-endian, as the memory of every machine that this is likely to run on.
void SetData(Tensor& tensor, const std::vector<float>& values) {
  tensor.set_data(values.data(), values.size() * sizeof(float));
}

std::vector<float> Values(const Tensor& tensor) {
  std::vector<float> values(tensor.data().size() / sizeof(float));
  std::memcpy(values.data(), tensor.data().data(), values.size() * sizeof(float));
  return values;
}

std::vector<float> Ramp(int64_t count) {
  std::vector<float> values(count);
  for (int64_t index = 0; index < count; ++index) values[index] = static_cast<float>(index % 1000);
  return values;
}

// Spreads each cell of a (planes, size, size) gradient over kScale x kScale cells.
ExecuteOperatorRequest Pooling(int64_t planes, int64_t size, const std::vector<float>& grad_output) {
  ExecuteOperatorRequest call;
  call.set_operator_("adaptive_avg_pool2d_backward");
  SetData(AddInput(call, "grad_output", {planes, size, size}), grad_output);
  AddInput(call, "self", {planes, size * kScale, size * kScale});
  return call;
}

// Each cell was one of kScale x kScale that were averaged: it gets that share of the gradient of their average.
bool IsSpread(const Tensor& output, const std::vector<float>& grad_output, int64_t size) {
  const std::vector<float> gradient = Values(output);
  const auto cells = static_cast<int64_t>(gradient.size());
  const int64_t width = size * kScale;
  for (int64_t cell = 0; cell < cells; ++cell) {
    const int64_t row = cell / width / kScale;  // of grad_output, over all planes
    const int64_t column = cell % width / kScale;
    if (gradient[cell] != grad_output[row * size + column] / (kScale * kScale)) return false;
  }
  return gradient.size() == grad_output.size() * kScale * kScale;
}

// Its result is, in every cell, the number of cells that were upsampled from it.
ExecuteOperatorRequest Upsampling(int64_t scale) {
  const int64_t size = 3 * scale;
  ExecuteOperatorRequest call;
  call.set_operator_("upsample_nearest2d_backward");
  SetData(AddInput(call, "grad_output", {1, 2, size, size}), std::vector<float>(2 * size * size, 1.0F));
  SetInts(call, "output_size", {size, size});
  SetInts(call, "input_size", {1, 2, 3, 3});
  return call;
}

bool Say(const std::string& what, bool is_right, const std::string& details) {
  std::cout << what << (is_right ? " right  " : " WRONG  ") << details << std::endl;
  return is_right;
}

bool OneCall(Client& client) {
  const std::vector<float> grad_output = Ramp(6 * 7 * 7);
  const auto reply = client.Execute(Pooling(6, 7, grad_output));
  const Tensor& output = reply.outputs(0);
  const std::string size = std::to_string(output.data().size());
  return Say("one call  ", IsSpread(output, grad_output, 7), output.name() + ", " + size + " bytes");
}

bool AProgram(Client& client) {
  const std::vector<int64_t> scales = {1, 2, 5};
  aclgrad::v1::ExecuteProgramRequest program;
  for (const int64_t scale : scales) *program.add_steps() = Upsampling(scale);
  *program.add_steps() = Upsampling(2);
  // A type that the operator does not take, and as many bytes.
  program.mutable_steps()->rbegin()->mutable_inputs(0)->set_data_type(aclgrad::v1::DATA_TYPE_INT32);
  const auto reply = client.ExecuteProgram(program);
  bool is_right = true;
  for (std::size_t index = 0; index < scales.size(); ++index) {
    const aclgrad::v1::StepResult& result = reply.results(static_cast<int>(index));
    if (result.has_error()) throw CallError(result.error());
    for (const float value : Values(result.outputs(0))) {
      is_right = is_right && value == static_cast<float>(scales[index] * scales[index]);
    }
  }
  const CallError refusal(reply.results().rbegin()->error());
  const std::string why = refusal.bad_request().field_violations(0).description();
  return Say("a program ", is_right && refusal.reason() == "INVALID_FIELD",
             std::to_string(scales.size()) + " gradients, and " + refusal.reason() + ": " + why);
}

bool InChunks(Client& client, int64_t message_bytes) {
  constexpr int64_t kSize = 128;
  const int64_t planes = message_bytes / (4 * kSize * kSize) + 1;
  const std::vector<float> grad_output = Ramp(planes * kSize * kSize);
  const auto start = std::chrono::steady_clock::now();
  const auto reply = client.ExecuteInChunks(Pooling(planes, kSize, grad_output));
  const auto elapsed = std::chrono::steady_clock::now() - start;
  const auto elapsed_ms = std::chrono::duration_cast<std::chrono::milliseconds>(elapsed).count();
  const auto megabytes = [](std::size_t bytes) { return std::to_string(bytes / 1'000'000) + " MB"; };
  return Say("in chunks ", IsSpread(reply.outputs(0), grad_output, kSize),
             megabytes(grad_output.size() * sizeof(float)) + " there, " + megabytes(reply.outputs(0).data().size()) +
                 " back in " + std::to_string(elapsed_ms) + " ms");
}

}  // namespace

int main(int count, char** arguments) {
  Client client(count > 1 ? arguments[1] : "127.0.0.1:50051");
  try {
    const auto status = client.ServerStatus();
    std::cout << "aclgrad " << status.version() << " on " << status.product() << " (" << status.library() << ")\n";
    const bool is_call_right = OneCall(client);
    const bool is_program_right = AProgram(client);
    // A server may keep its limits to itself.
    const bool are_chunks_right =
        InChunks(client, status.has_limits() ? status.limits().message_bytes() : kMessageBytes);
    return is_call_right && is_program_right && are_chunks_right ? 0 : 1;
  } catch (const CallError& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
