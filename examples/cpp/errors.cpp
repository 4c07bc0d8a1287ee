#include "errors.h"

#include <grpcpp/support/status_code_enum.h>

#include <array>
#include <cstddef>

namespace {

constexpr std::array kNames = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

// Returns the details that a status carries; none if gRPC's core made it.
google::rpc::Status Unpack(const grpc::Status& status) {
  google::rpc::Status unpacked;
  if (!unpacked.ParseFromString(status.error_details()) || unpacked.details().empty()) unpacked.Clear();
  unpacked.set_code(status.error_code());
  unpacked.set_message(status.error_message());
  return unpacked;
}

template <typename Detail>
std::optional<Detail> Find(const google::rpc::Status& status) {
  Detail detail;
  for (const google::protobuf::Any& any : status.details()) {
    if (any.UnpackTo(&detail)) return detail;
  }
  return std::nullopt;
}

std::string Describe(const google::rpc::Status& status) {
  const auto info = Find<google::rpc::ErrorInfo>(status).value_or(google::rpc::ErrorInfo());
  const auto id = info.metadata().find("request_id");
  const auto code = static_cast<std::size_t>(status.code());
  return (code < kNames.size() ? kNames[code] : "UNKNOWN") + (info.reason().empty() ? "" : " " + info.reason()) + ": " +
         status.message() + (id == info.metadata().end() ? "" : " (request " + id->second + ")");
}

}  // namespace

CallError::CallError(const grpc::Status& status) : CallError(Unpack(status)) {}

CallError::CallError(const google::rpc::Status& status)
    : std::runtime_error(Describe(status)),
      info_(Find<google::rpc::ErrorInfo>(status).value_or(google::rpc::ErrorInfo())),
      bad_request_(Find<google::rpc::BadRequest>(status).value_or(google::rpc::BadRequest())) {
  if (const auto info = Find<google::rpc::RetryInfo>(status)) {
    const auto& delay = info->retry_delay();
    retry_delay_ = std::chrono::seconds(delay.seconds()) + std::chrono::nanoseconds(delay.nanos());
  } else if (status.code() == grpc::UNAVAILABLE && status.details().empty()) {
    // The connection was lost or could not be made. Every call may be repeated.
    retry_delay_ = std::chrono::nanoseconds(0);
  }
}
