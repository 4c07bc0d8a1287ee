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

using aclgrad::v1::ExecuteOperatorChunkedRequest;
using aclgrad::v1::ExecuteOperatorChunkedResponse;
using aclgrad::v1::ExecuteOperatorRequest;
using aclgrad::v1::ExecuteOperatorResponse;
using std::chrono::system_clock;
using Stream = grpc::ClientReaderWriter<ExecuteOperatorChunkedRequest, ExecuteOperatorChunkedResponse>;

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

// Takes the data out of the call's inputs, and returns the header of the call and the data by input.
std::pair<ExecuteOperatorChunkedRequest, std::vector<std::string>> Split(ExecuteOperatorRequest call) {
  ExecuteOperatorChunkedRequest message;
  std::vector<std::string> contents;
  for (aclgrad::v1::Tensor& input : *call.mutable_inputs()) {
    if (!input.has_data()) continue;
    message.mutable_header()->add_chunked_inputs(input.name());
    contents.push_back(std::move(*input.mutable_data()));
    input.clear_content();
  }
  *message.mutable_header()->mutable_request() = std::move(call);
  return {std::move(message), std::move(contents)};
}

// Returns early if the server has ended the call: its status says why.
void SendChunks(Stream& stream, const std::vector<std::string>& contents) {
  ExecuteOperatorChunkedRequest message;
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

ExecuteOperatorResponse ReceiveChunks(Stream& stream) {
  ExecuteOperatorChunkedResponse message;
  ExecuteOperatorResponse reply;
  while (stream.Read(&message)) {
    if (message.has_header()) {
      reply = std::move(*message.mutable_header());
    } else {
      // Chunks come in order, without gaps.
      reply.mutable_outputs()->at(message.chunk().tensor_index()).mutable_data()->append(message.chunk().data());
    }
  }
  return reply;
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

aclgrad::v1::BatchExecuteOperatorsResponse Client::ExecuteBatch(
    const aclgrad::v1::BatchExecuteOperatorsRequest& batch) {
  aclgrad::v1::BatchExecuteOperatorsResponse reply;
  Retried([&](grpc::ClientContext* context) { return service_->BatchExecuteOperators(context, batch, &reply); });
  return reply;
}

ExecuteOperatorResponse Client::ExecuteInChunks(ExecuteOperatorRequest call) {
  const auto [header, contents] = Split(std::move(call));
  ExecuteOperatorResponse reply;
  Retried([&, &header = header, &contents = contents](grpc::ClientContext* context) {
    const auto stream = service_->ExecuteOperatorChunked(context);
    stream->Write(header);
    // The server answers with its metadata once it has accepted the header. A proxy may hold that back.
    auto ready = std::async(std::launch::async, [&] { stream->WaitForInitialMetadata(); });
    ready.wait_for(kReadyWait);
    SendChunks(*stream, contents);
    ready.wait();
    reply = ReceiveChunks(*stream);
    return stream->Finish();
  });
  return reply;
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
