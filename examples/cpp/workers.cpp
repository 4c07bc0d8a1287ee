// Spreads small calls over the workers of a host, and prints how many ended how.
//
//     workers HOST:PORT [CALLS]
#include <aclgrad/v1/operator_service.grpc.pb.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>

namespace {

using aclgrad::v1::OperatorService;

constexpr int kSize = 8;

void SetDeadline(grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
}

// Returns the workers behind an address, or that address if there are none, and in `id` the name they all answer to.
std::string WorkersOf(const std::string& address, std::string& id) {
  const std::size_t colon = address.rfind(':');
  grpc::ClientContext context;
  SetDeadline(context);
  aclgrad::v1::ListOperatorsResponse reply;
  const auto door = OperatorService::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  const grpc::Status status = door->ListOperators(&context, {}, &reply);
  if (!status.ok()) throw std::runtime_error(status.error_message());
  id = reply.host().id();
  for (const auto& listener : reply.host().listeners()) {
    if (std::to_string(listener.port()) != address.substr(colon + 1)) continue;
    std::string target;
    for (const int port : listener.worker_ports()) {
      target += (target.empty() ? "ipv4:" : ",") + address.substr(0, colon + 1) + std::to_string(port);
    }
    return target;
  }
  return "ipv4:" + address;
}

grpc::ChannelArguments Options(const std::string& id) {
  grpc::ChannelArguments options;
  // gRPC takes the first policy that it knows, and asks each server whether it answers to the name.
  options.SetServiceConfigJSON(R"({
    "loadBalancingConfig": [
      {"weighted_round_robin": {"blackoutPeriod": "1s", "weightUpdatePeriod": "1s"}},
      {"round_robin": {}}
    ],
    "healthCheckConfig": {"serviceName": ")" +
                               id + "\"}}");
  options.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  return options;
}

aclgrad::v1::ExecuteOperatorRequest Call() {
  aclgrad::v1::ExecuteOperatorRequest call;
  call.set_operator_("adaptive_avg_pool2d_backward");
  for (const char* name : {"grad_output", "self"}) {
    aclgrad::v1::Tensor& tensor = *call.add_inputs();
    tensor.set_name(name);
    tensor.set_data_type(aclgrad::v1::DATA_TYPE_FLOAT32);
    for (const int size : {1, kSize, kSize}) tensor.add_shape(size);
  }
  call.mutable_inputs(0)->set_data(std::string(sizeof(float) * kSize * kSize, '\0'));
  return call;
}

}  // namespace

int main(int count, char** arguments) try {
  const std::string address = count > 1 ? arguments[1] : "127.0.0.1:50051";
  const int calls = count > 2 ? std::stoi(arguments[2]) : 100;
  std::string id;
  const std::string target = WorkersOf(address, id);
  const auto service =
      OperatorService::NewStub(grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), Options(id)));
  const auto call = Call();
  std::map<std::string, int> endings;
  for (int number = 0; number < calls; ++number) {
    grpc::ClientContext context;
    SetDeadline(context);
    context.set_wait_for_ready(number == 0);
    aclgrad::v1::ExecuteOperatorResponse reply;
    const grpc::Status status = service->ExecuteOperator(&context, call, &reply);
    const bool is_right = status.ok() && reply.outputs(0).data() == call.inputs(0).data();
    ++endings[is_right ? "right" : std::to_string(status.error_code()) + ": " + status.error_message()];
  }
  for (const auto& [ending, number] : endings) std::cout << number << " " << ending << "\n";
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
