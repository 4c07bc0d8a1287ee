// A library to preload: counts the bytes that a process copies by memcpy and memmove in blocks of a kilobyte or more.
// COPY_COUNTER names a file of eight bytes that always has the sum. The sum does not include copies by the kernel
// between sockets and memory, nor the reads and writes of operators: those are not our copies.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace {

using Copy = void* (*)(void*, const void*, std::size_t);
using Counter = std::atomic<std::uint64_t>;

// Smaller copies are headers, names and the bookkeeping of gRPC; gRPC's own blocks of a message have 8 KB or more.
constexpr std::size_t kLeastBytes = 1024;

Counter* MapCounter() {
  const char* path = std::getenv("COPY_COUNTER");
  const int file = path == nullptr ? -1 : open(path, O_RDWR);
  if (file < 0) return nullptr;
  void* page = mmap(nullptr, sizeof(Counter), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return page == MAP_FAILED ? nullptr : static_cast<Counter*>(page);
}

// Set last, by the constructor below; earlier calls are the loader's.
std::atomic<Counter*> counter{nullptr};

[[gnu::constructor]] void Start() { counter = MapCounter(); }

void Count(std::size_t size_bytes) {
  if (size_bytes < kLeastBytes) return;
  if (Counter* const sum = counter.load(std::memory_order_relaxed)) sum->fetch_add(size_bytes);
}

// dlsym itself copies a few bytes while it looks for the real function.
void* CopyByHand(void* to, const void* from, std::size_t size_bytes) {
  auto* out = static_cast<volatile char*>(to);
  const auto* in = static_cast<const volatile char*>(from);
  if (out <= in) {
    for (std::size_t i = 0; i < size_bytes; ++i) out[i] = in[i];
  } else {
    for (std::size_t i = size_bytes; i > 0; --i) out[i - 1] = in[i - 1];
  }
  return to;
}

void* CopyBy(std::atomic<Copy>& real, const char* name, void* to, const void* from, std::size_t size_bytes) {
  Copy copy = real.load(std::memory_order_relaxed);
  if (copy == nullptr) {
    thread_local bool looking = false;
    if (looking) return CopyByHand(to, from, size_bytes);
    looking = true;
    copy = reinterpret_cast<Copy>(dlsym(RTLD_NEXT, name));
    looking = false;
    real = copy;
  }
  return copy(to, from, size_bytes);
}

std::atomic<Copy> real_memcpy{nullptr};
std::atomic<Copy> real_memmove{nullptr};

}  // namespace

extern "C" {

void* memcpy(void* __restrict to, const void* __restrict from, std::size_t size_bytes) noexcept {
  Count(size_bytes);
  return CopyBy(real_memcpy, "memcpy", to, from, size_bytes);
}

void* memmove(void* to, const void* from, std::size_t size_bytes) noexcept {
  Count(size_bytes);
  return CopyBy(real_memmove, "memmove", to, from, size_bytes);
}

void* __memcpy_chk(void* to, const void* from, std::size_t size_bytes, std::size_t) noexcept {
  Count(size_bytes);
  return CopyBy(real_memcpy, "memcpy", to, from, size_bytes);
}

void* __memmove_chk(void* to, const void* from, std::size_t size_bytes, std::size_t) noexcept {
  Count(size_bytes);
  return CopyBy(real_memmove, "memmove", to, from, size_bytes);
}

}  // extern "C"
