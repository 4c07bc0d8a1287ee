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
using aclgrad::v1::ExecuteProgramRequest;
using aclgrad::v1::OutputOf;
using aclgrad::v1::Tensor;

constexpr int64_t kScale = 2;

void Describe(Tensor& tensor, const std::vector<int64_t>& shape) {
  tensor.set_data_type(aclgrad::v1::DATA_TYPE_FLOAT32);
  tensor.mutable_shape()->Assign(shape.begin(), shape.end());
}

// Without data, a tensor is shape-only: enough for inputs of which the operator needs only the shape.
Tensor& AddInput(ExecuteOperatorRequest& call, const std::string& name, const std::vector<int64_t>& shape) {
  Tensor& tensor = *call.add_inputs();
  tensor.set_name(name);
  Describe(tensor, shape);
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

// Adds two steps: the backward pass of a net that enlarges its input by kScale and averages it again, from the gradient
// in the table. The second step takes what the first one made.
void AddSteps(ExecuteProgramRequest& program, int64_t planes) {
  const int first = program.steps_size();
  const int64_t size = 3 * kScale;
  ExecuteOperatorRequest& pooling = *program.add_steps();
  pooling.set_operator_("adaptive_avg_pool2d_backward");
  AddInput(pooling, "grad_output", {1, 2, 3, 3}).set_table_index(0);
  AddInput(pooling, "self", {1, planes, size, size});

  ExecuteOperatorRequest& upsampling = *program.add_steps();
  upsampling.set_operator_("upsample_nearest2d_backward");
  OutputOf& pooled = *AddInput(upsampling, "grad_output", {1, planes, size, size}).mutable_output_of();
  pooled.set_step(first);
  pooled.set_output("out");
  SetInts(upsampling, "output_size", {size, size});
  SetInts(upsampling, "input_size", {1, planes, 3, 3});

  OutputOf& returned = *program.add_returned();
  returned.set_step(first + 1);
  returned.set_output("grad_input");
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
  const std::vector<float> grad_output = Ramp(2 * 3 * 3);
  ExecuteProgramRequest program;
  Tensor& sent_once = *program.add_tensors();  // used by steps 0 and 2
  Describe(sent_once, {1, 2, 3, 3});
  SetData(sent_once, grad_output);
  AddSteps(program, 2);
  AddSteps(program, 3);  // the gradient has 2 planes, so step 2 is wrong, and step 3 lacks its input
  const auto results = client.ExecuteProgram(program).results();
  if (results[1].has_error()) throw CallError(results[1].error());
  const Tensor& output = results[1].outputs(0);
  const CallError refusal(results[2].error());
  const CallError lack(results[3].error());
  // The shares of the average are summed again: the gradient of this net is the one that came in. That of step 0 is not
  // sent back.
  const bool is_right = results[0].outputs().empty() && Values(output) == grad_output &&
                        refusal.reason() == "INVALID_FIELD" && lack.metadata().at("step") == "2";
  const std::string why = refusal.reason() + ", " + refusal.bad_request().field_violations(0).description();
  return Say("a program ", is_right, output.name() + " of step 1; step 2: " + why + "; step 3: " + lack.reason());
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
