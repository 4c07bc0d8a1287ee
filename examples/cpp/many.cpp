// Makes many small calls at once, without retries, and prints how many of them ended how.
//
//     many HOST:PORT [CHANNELS [CALLS]]
#include <aclgrad/v1/operator_service.grpc.pb.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace {

using aclgrad::v1::ExecuteOperatorRequest;
using aclgrad::v1::ExecuteOperatorResponse;
using Stub = aclgrad::v1::OperatorService::Stub;

constexpr int kSize = 8;

ExecuteOperatorRequest Call() {
  ExecuteOperatorRequest call;
  call.set_operator_("adaptive_avg_pool2d_backward");
  for (const char* name : {"grad_output", "self"}) {
    aclgrad::v1::Tensor& tensor = *call.add_inputs();
    tensor.set_name(name);
    tensor.set_data_type(aclgrad::v1::DATA_TYPE_FLOAT32);
    for (const int size : {1, kSize, kSize}) tensor.add_shape(size);
  }
  const std::vector<float> ones(kSize * kSize, 1.0F);
  call.mutable_inputs(0)->set_data(ones.data(), ones.size() * sizeof(float));
  return call;
}

std::string Ending(const grpc::Status& status, const ExecuteOperatorResponse& reply) {
  if (!status.ok()) return std::to_string(status.error_code()) + ": " + status.error_message();
  const auto* values = reinterpret_cast<const float*>(reply.outputs(0).data().data());
  return std::all_of(values, values + kSize * kSize, [](float value) { return value == 1.0F; }) ? "right" : "wrong";
}

struct Pending {
  grpc::ClientContext context;
  ExecuteOperatorResponse reply;
};

// Makes so many calls at once on each channel and returns how many ended how.
std::map<std::string, int> Endings(const std::vector<std::unique_ptr<Stub>>& services, int calls) {
  const ExecuteOperatorRequest call = Call();
  std::map<std::string, int> endings;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::unique_ptr<Pending>> pending;
  std::size_t left = services.size() * static_cast<std::size_t>(calls);
  for (const auto& service : services) {
    for (int i = 0; i < calls; ++i) {
      Pending& each = *pending.emplace_back(std::make_unique<Pending>());
      each.context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
      service->async()->ExecuteOperator(&each.context, &call, &each.reply, [&](const grpc::Status& status) {
        const std::lock_guard lock(mutex);
        ++endings[Ending(status, each.reply)];
        if (--left == 0) changed.notify_one();
      });
    }
  }
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return left == 0; });
  return endings;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string address = count > 1 ? arguments[1] : "127.0.0.1:50051";
  const int channels = count > 2 ? std::stoi(arguments[2]) : 1;
  const int calls = count > 3 ? std::stoi(arguments[3]) : 500;
  std::vector<std::unique_ptr<Stub>> services;
  for (int number = 0; number < channels; ++number) {
    grpc::ChannelArguments options;
    options.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
    services.push_back(aclgrad::v1::OperatorService::NewStub(
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), options)));
  }
  Endings(services, 1);  // connects
  for (const auto& [ending, number] : Endings(services, calls)) std::cout << number << " " << ending << "\n";
}
