#include "client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <future>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "errors.h"

namespace {

using aclgrad::v1::ExecuteOperatorRequest;
using aclgrad::v1::ExecuteOperatorResponse;
using aclgrad::v1::ExecuteProgramChunkedRequest;
using aclgrad::v1::ExecuteProgramChunkedResponse;
using aclgrad::v1::ExecuteProgramResponse;
using aclgrad::v1::StepResult;
using std::chrono::system_clock;
using Stream = grpc::ClientReaderWriter<ExecuteProgramChunkedRequest, ExecuteProgramChunkedResponse>;

constexpr std::size_t kChunkBytes = 1 << 20;
constexpr std::chrono::seconds kReadyWait(1);
constexpr int kRetries = 4;

std::shared_ptr<grpc::Channel> Connect(const std::string& address,
                                       const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMessageBytes);
  // Between its attempts to connect, gRPC fails every call: by itself for up to two minutes.
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

// At random, so that clients that failed together do not come back together.
std::chrono::nanoseconds Jitter(int failures) {
  thread_local std::mt19937 generator{std::random_device{}()};
  return std::chrono::milliseconds(std::uniform_int_distribution<>(0, 200 << failures)(generator));
}

// Takes the data out of the call's inputs, and returns the header of a program of this one step, whose inputs refer to
// tensors of its table, and the data of these tensors.
std::pair<ExecuteProgramChunkedRequest, std::vector<std::string>> Split(ExecuteOperatorRequest call) {
  ExecuteProgramChunkedRequest message;
  aclgrad::v1::ExecuteProgramRequest& program = *message.mutable_header()->mutable_program();
  std::vector<std::string> contents;
  for (aclgrad::v1::Tensor& input : *call.mutable_inputs()) {
    if (!input.has_data()) continue;
    aclgrad::v1::Tensor& announced = *program.add_tensors();
    announced.set_data_type(input.data_type());
    *announced.mutable_shape() = input.shape();
    contents.push_back(std::move(*input.mutable_data()));
    input.set_table_index(static_cast<int>(contents.size()) - 1);
  }
  *program.add_steps() = std::move(call);
  return {std::move(message), std::move(contents)};
}

// Returns early if the server has ended the call: its status says why.
void SendChunks(Stream& stream, const std::vector<std::string>& contents) {
  ExecuteProgramChunkedRequest message;
  for (std::size_t index = 0; index < contents.size(); ++index) {
    for (std::size_t offset = 0; offset < contents[index].size(); offset += kChunkBytes) {
      aclgrad::v1::TensorChunk& chunk = *message.mutable_chunk();
      chunk.set_tensor_index(static_cast<int>(index));
      chunk.set_offset_bytes(static_cast<int64_t>(offset));
      chunk.set_data(contents[index].substr(offset, kChunkBytes));
      if (!stream.Write(message)) return;
    }
  }
  stream.WritesDone();
}

StepResult ReceiveChunks(Stream& stream) {
  ExecuteProgramChunkedResponse message;
  StepResult result;
  while (stream.Read(&message)) {
    if (message.has_results()) {
      result = std::move(*message.mutable_results()->mutable_results(0));
    } else {
      // Chunks come in order, without gaps.
      result.mutable_outputs()->at(message.chunk().tensor_index()).mutable_data()->append(message.chunk().data());
    }
  }
  return result;
}

// Returns the status of a step as that of a call.
grpc::Status StatusOf(const StepResult& result) {
  const google::rpc::Status& error = result.error();
  return {static_cast<grpc::StatusCode>(error.code()), error.message(), error.SerializeAsString()};
}

}  // namespace

Client::Client(const std::string& address, std::chrono::milliseconds timeout,
               const std::shared_ptr<grpc::ChannelCredentials>& credentials)
    : service_(aclgrad::v1::OperatorService::NewStub(Connect(address, credentials))), timeout_(timeout) {}

aclgrad::v1::GetServerStatusResponse Client::ServerStatus() {
  aclgrad::v1::GetServerStatusResponse reply;
  Retried([&](grpc::ClientContext* context) { return service_->GetServerStatus(context, {}, &reply); });
  return reply;
}

ExecuteOperatorResponse Client::Execute(const ExecuteOperatorRequest& call) {
  ExecuteOperatorResponse reply;
  Retried([&](grpc::ClientContext* context) { return service_->ExecuteOperator(context, call, &reply); });
  return reply;
}

ExecuteProgramResponse Client::ExecuteProgram(const aclgrad::v1::ExecuteProgramRequest& program) {
  ExecuteProgramResponse reply;
  Retried([&](grpc::ClientContext* context) { return service_->ExecuteProgram(context, program, &reply); });
  return reply;
}

StepResult Client::ExecuteInChunks(ExecuteOperatorRequest call) {
  const auto [header, contents] = Split(std::move(call));
  StepResult result;
  Retried([&, &header = header, &contents = contents](grpc::ClientContext* context) {
    const auto stream = service_->ExecuteProgramChunked(context);
    stream->Write(header);
    // The server answers with its metadata once it has accepted the header. A proxy may hold that back.
    auto ready = std::async(std::launch::async, [&] { stream->WaitForInitialMetadata(); });
    ready.wait_for(kReadyWait);
    SendChunks(*stream, contents);
    ready.wait();
    result = ReceiveChunks(*stream);
    const grpc::Status status = stream->Finish();
    return status.ok() ? StatusOf(result) : status;
  });
  return result;
}

void Client::Retried(const Attempt& attempt) {
  const auto deadline = system_clock::now() + timeout_;
  for (int failures = 0;; ++failures) {
    grpc::ClientContext context;
    context.set_deadline(deadline);
    const grpc::Status status = attempt(&context);
    if (status.ok()) return;
    const CallError error(status);
    if (!error.retry_delay() || failures == kRetries) throw error;
    const auto delay = *error.retry_delay() + Jitter(failures);
    if (system_clock::now() + delay >= deadline) throw error;
    std::this_thread::sleep_for(delay);
  }
}
