// A device: its worker threads, its default context, whether it is lost, and the number of its streams in use.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "device/thread_pool.h"
#include "errors/exceptions.h"
#include "settings/config.h"

namespace acl_host {

struct HostDevice {
  HostDevice(int32_t id_in, const Config& config)
      : id(id_in),
        stream_limit(FactsOf(config.product).stream_limit),
        pool(config.threads),
        streams(config.streams_elsewhere) {}

  const int32_t id;
  const int32_t stream_limit;
  ThreadPool pool;
  std::atomic<int32_t> streams;

  // Takes the failure of some work. If a card would not survive it, the device is lost: every use of it throws the same
  // code until the device is reset by force.
  void Record(const Error& failure);
  // The same for a task of a stream.
  void RecordOfTask(const Error& failure);
  void CheckUsable() const {
    // Read once, because another thread may reset the device meanwhile and the error needs the code.
    if (const aclError code = lost_code_) ThrowLost(code);
  }
  [[nodiscard]] bool lost() const { return lost_code_ != ACL_SUCCESS; }
  void Recover() {
    lost_code_ = ACL_SUCCESS;
    stops_on_failure_ = false;
  }

  // From now on any task's failure loses the device. On a card it loses the context alone; those of other contexts are
  // few.
  void StopOnFailure() { stops_on_failure_ = true; }

  // aclrtSetDevice and aclrtResetDevice count; the default context lives while the count is above zero.
  std::mutex mutex;
  int32_t uses = 0;
  void* default_context = nullptr;

 private:
  void Lose(const Error& failure);
  [[noreturn]] void ThrowLost(aclError code) const;

  std::atomic<bool> stops_on_failure_{false};
  mutable std::mutex loss_mutex_;
  std::string loss_message_;  // of the error that caused the loss
  std::atomic<aclError> lost_code_{ACL_SUCCESS};
};

// One of the device's limited number of streams.
class StreamSlot {
 public:
  explicit StreamSlot(HostDevice& device) : device_(device) {
    const int32_t limit = device.stream_limit;
    if (device_.streams.fetch_add(1) < limit) return;
    device_.streams.fetch_sub(1);
    throw Error(ACL_ERROR_RT_NO_STREAM_RESOURCE,
                "device " + std::to_string(device.id) + " has all of its " + std::to_string(limit) + " streams in use");
  }
  ~StreamSlot() { device_.streams.fetch_sub(1); }
  StreamSlot(const StreamSlot&) = delete;
  StreamSlot& operator=(const StreamSlot&) = delete;

 private:
  HostDevice& device_;
};

}  // namespace acl_host
