// Stands before the host library: a test counts calls of its functions, and makes them fail or hang.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>

namespace {

constexpr int kTimeout = 507046;

struct Steering {
  std::atomic<int> calls{0};
  std::atomic<int> late{0};
  std::atomic<int> to_fail{0};  // less than 0 for all
  std::atomic<int> code{0};
  std::atomic<int> until_hang{0};  // the number of calls up to the one that hangs; 0 if none does
  std::atomic<bool> like_it{false};
  std::atomic<const void*> hung_on{nullptr};
  std::atomic<int> hanging{0};
};

std::atomic<int> releases{0};
std::atomic<std::size_t> free_bytes{0};
std::atomic<uintptr_t> copied_addresses{0};
std::atomic<void*> watched{nullptr};  // the stream of the first wait, then of the last that was late
std::atomic<int> busy_code{0};
std::mutex texts_mutex;
std::deque<std::string> texts;
std::atomic<bool> repeats{false};
thread_local bool has_planned = false;
std::atomic<int> planners{0};
std::atomic<int> strangers{0};

Steering& Of(const char* name) {
  static std::mutex mutex;
  static std::map<std::string, Steering>* const all = new std::map<std::string, Steering>;
  const std::lock_guard lock(mutex);
  return (*all)[name];
}

template <typename Function>
Function* Real(const char* name) {
  static void* const host = dlopen(std::getenv("STEERED_HOST"), RTLD_NOW);
  return reinterpret_cast<Function*>(dlsym(host, name));
}

void HangIfTold(Steering& steering, const void* argument) {
  const bool is_it = steering.until_hang > 0 && --steering.until_hang == 0;
  if (is_it) steering.hung_on = argument;
  const bool is_like_it = steering.like_it && argument != nullptr && argument == steering.hung_on;
  if (!is_it && !is_like_it) return;
  ++steering.hanging;
  for (const int before = releases; releases == before;) usleep(1000);
  --steering.hanging;
}

// The code that the call is to fail with, or 0.
int TakeFailure(Steering& steering) {
  if (steering.to_fail == 0) return 0;
  if (steering.to_fail > 0) --steering.to_fail;
  return steering.code;
}

template <typename First, typename... Rest>
int Call(const char* name, First first, Rest... rest) {
  Steering& steering = Of(name);
  ++steering.calls;
  const void* argument = nullptr;
  if constexpr (std::is_pointer_v<First>) argument = first;
  HangIfTold(steering, argument);
  if (const int code = TakeFailure(steering)) return code;
  const int code = Real<int(First, Rest...)>(name)(first, rest...);
  if (code == kTimeout) ++steering.late;
  return code;
}

bool IsBusy(void* stream) {
  int status = 0;
  return Real<int(void*, int*)>("aclrtStreamQuery")(stream, &status) != 0 || status == 1;
}

}  // namespace

extern "C" {

// Calls since the last time.
int Calls(const char* name) { return Of(name).calls.exchange(0); }
// Calls that the library ended with a timeout.
int Late(const char* name) { return Of(name).late; }
// The next calls fail, all of them if count is less than 0.
void Fail(const char* name, int code, int count) {
  Of(name).code = code;
  Of(name).to_fail = count;
}
// The call of this number hangs from now on, and all later ones with the same first argument if like_it is true.
void Hang(const char* name, int number, bool like_it) {
  Of(name).like_it = like_it;
  Of(name).until_hang = number;
}
int Hanging(const char* name) { return Of(name).hanging; }
// Ends what hangs now.
void Release() { ++releases; }
void AddText(const char* text, std::size_t size) {
  const std::lock_guard lock(texts_mutex);
  texts.emplace_back(text, size);
}
void Repeat() { repeats = true; }
void SetFree(std::size_t bytes) { free_bytes = bytes; }
int Misalignment() { return static_cast<int>(copied_addresses % 64); }
// Threads that have planned a call of adaptive average pooling.
int Planners() { return planners; }
// Executors that were destroyed by threads which had made none.
int Strangers() { return strangers; }
// The first stream that is waited for answers with this code as long as it is busy.
void FailWhileBusy(int code) { busy_code = code; }
// Whether that stream, or the last one whose wait was late, has nothing to do.
int IsDone() { return watched != nullptr && !IsBusy(watched); }

const char* aclGetRecentErrMsg() {
  thread_local std::string returned;
  const std::lock_guard lock(texts_mutex);
  if (texts.empty()) return nullptr;
  returned = texts.front();
  if (!repeats) texts.pop_front();
  return returned.c_str();
}

int aclrtGetMemInfo(int kind, std::size_t* free, std::size_t* total) {
  const int code = Call("aclrtGetMemInfo", kind, free, total);
  if (free_bytes == 0) return code;
  *free = free_bytes;
  *total = std::size_t{1000} << 20;
  return code;
}

int aclrtMemcpy(void* to, std::size_t room, const void* from, std::size_t count, int kind) {
  return Call("aclrtMemcpy", to, room, from, count, kind);
}

int aclrtMemcpyAsync(void* to, std::size_t room, const void* from, std::size_t count, int kind, void* stream) {
  copied_addresses |= reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from);
  return Call("aclrtMemcpyAsync", to, room, from, count, kind, stream);
}

int aclrtMemsetAsync(void* to, std::size_t room, int value, std::size_t count, void* stream) {
  return Call("aclrtMemsetAsync", to, room, value, count, stream);
}

int aclrtStreamQuery(void* stream, int* status) {
  if (busy_code != 0 && stream == watched && IsBusy(stream)) return busy_code;
  const int code = Call("aclrtStreamQuery", stream, status);
  if (code != 0) AddText("stale", 5);
  return code;
}

int aclrtSynchronizeStreamWithTimeout(void* stream, int32_t timeout) {
  void* none = nullptr;
  watched.compare_exchange_strong(none, stream);
  if (busy_code != 0 && stream == watched && IsBusy(stream)) return busy_code;
  const int code = Call("aclrtSynchronizeStreamWithTimeout", stream, timeout);
  if (code == kTimeout) watched = stream;
  return code;
}

// Fails after it has begun its kernel.
int aclnnAdaptiveAvgPool2dBackward(void* workspace, uint64_t size, void* executor, void* stream) {
  Steering& steering = Of("aclnnAdaptiveAvgPool2dBackward");
  HangIfTold(steering, nullptr);
  const int code =
      Real<int(void*, uint64_t, void*, void*)>("aclnnAdaptiveAvgPool2dBackward")(workspace, size, executor, stream);
  ++steering.calls;
  const int failure = TakeFailure(steering);
  return failure != 0 ? failure : code;
}

int aclnnAdaptiveAvgPool2dBackwardGetWorkspaceSize(void* grad, void* self, void* out, uint64_t* size, void** executor) {
  if (!std::exchange(has_planned, true)) ++planners;
  return Call("aclnnAdaptiveAvgPool2dBackwardGetWorkspaceSize", grad, self, out, size, executor);
}

// One phase alone, without the other: a runtime takes both from the host library.
int aclnnReflectionPad1dBackward(void*, uint64_t, void*, void*) { return 561000; }

int aclDestroyAclOpExecutor(void* executor) {
  if (!has_planned) ++strangers;
  return Call("aclDestroyAclOpExecutor", executor);
}

int aclFinalizeReference(uint64_t* left) { return Call("aclFinalizeReference", left); }
int aclrtCreateStream(void** stream) { return Call("aclrtCreateStream", stream); }
int aclrtCtxSetSysParamOpt(int option, int64_t value) { return Call("aclrtCtxSetSysParamOpt", option, value); }
int aclrtFree(void* address) { return Call("aclrtFree", address); }
int aclrtFreeHost(void* address) { return Call("aclrtFreeHost", address); }
int aclrtGetLastError(int level) { return Call("aclrtGetLastError", level); }
int aclrtMalloc(void** address, std::size_t size, int policy) { return Call("aclrtMalloc", address, size, policy); }
int aclrtMallocHost(void** address, std::size_t size) { return Call("aclrtMallocHost", address, size); }
int aclrtResetDevice(int device) { return Call("aclrtResetDevice", device); }
int aclrtSetCurrentContext(void* context) { return Call("aclrtSetCurrentContext", context); }
int aclrtSetDevice(int device) { return Call("aclrtSetDevice", device); }

}  // extern "C"
