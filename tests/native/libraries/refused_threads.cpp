// Preloaded: refuses threads as a system does that has too many.
#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>

namespace {

std::atomic<int> allowed{0};
std::atomic<int> to_refuse{0};
std::atomic<int> refused{0};

}  // namespace

// Refuses so many threads, after so many that are allowed.
extern "C" void Refuse(int after, int count) {
  allowed = after;
  to_refuse = count;
}
extern "C" int Refused() { return refused; }

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* how, void* (*run)(void*), void* argument) {
  static const auto real = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  if (to_refuse == 0 || allowed-- > 0) return real(thread, how, run, argument);
  --to_refuse;
  ++refused;
  return EAGAIN;
}
