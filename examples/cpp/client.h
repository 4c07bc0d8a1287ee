// A client with deadlines and retries: one call in a message, a program in a message, one call in chunks.
#pragma once

#include <aclgrad/v1/operator_service.grpc.pb.h>
#include <grpcpp/security/credentials.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

constexpr int kMessageBytes = 16 << 20;  // the default limit of a server; gRPC by itself receives only 4 MiB

// Every method throws a CallError if the call failed, and may be called from several threads.
class Client {
 public:
  // For TLS, give grpc::SslCredentials.
  explicit Client(const std::string& address, std::chrono::milliseconds timeout = std::chrono::minutes(1),
                  const std::shared_ptr<grpc::ChannelCredentials>& credentials = grpc::InsecureChannelCredentials());

  // Tells what the server runs on, how busy it is, and its limits.
  [[nodiscard]] aclgrad::v1::GetServerStatusResponse ServerStatus();

  [[nodiscard]] aclgrad::v1::ExecuteOperatorResponse Execute(const aclgrad::v1::ExecuteOperatorRequest& call);

  // The result has the outputs or the status of each step.
  [[nodiscard]] aclgrad::v1::ExecuteProgramResponse ExecuteProgram(const aclgrad::v1::ExecuteProgramRequest& program);

  // Takes a call of any size. Protobuf limits one tensor to 2 GiB here, because the outputs are messages too.
  [[nodiscard]] aclgrad::v1::StepResult ExecuteInChunks(aclgrad::v1::ExecuteOperatorRequest call);

 private:
  using Attempt = std::function<grpc::Status(grpc::ClientContext*)>;

  // Retries after temporary failures, all attempts within one deadline.
  void Retried(const Attempt& attempt);

  std::unique_ptr<aclgrad::v1::OperatorService::Stub> service_;
  std::chrono::milliseconds timeout_;
};
