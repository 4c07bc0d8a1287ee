// A failed call: the gRPC status and, unless gRPC itself failed the call, the reason that error_reason.proto names.
#pragma once

#include <google/rpc/error_details.pb.h>
#include <google/rpc/status.pb.h>
#include <grpcpp/support/status.h>

#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>

class CallError : public std::runtime_error {
 public:
  explicit CallError(const grpc::Status& status);
  // Takes the status of one step of a program.
  explicit CallError(const google::rpc::Status& status);

  // Empty if gRPC itself failed the call.
  [[nodiscard]] const std::string& reason() const { return info_.reason(); }
  [[nodiscard]] const google::protobuf::Map<std::string, std::string>& metadata() const { return info_.metadata(); }
  // Has the fields of the request that are at fault.
  [[nodiscard]] const google::rpc::BadRequest& bad_request() const { return bad_request_; }
  // How long to wait before the same call can succeed; empty if a retry does not help.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> retry_delay() const { return retry_delay_; }

 private:
  google::rpc::ErrorInfo info_;
  google::rpc::BadRequest bad_request_;
  std::optional<std::chrono::nanoseconds> retry_delay_;
};
