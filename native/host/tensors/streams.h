// Copies to memory that is too large for the caches: it is written around them, so that it is not read first.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace acl_host {
namespace {

#if defined(__AVX512F__)
using StreamedLane = __m512i;
inline void Stream(std::byte* to, StreamedLane lane) { _mm512_stream_si512(reinterpret_cast<StreamedLane*>(to), lane); }
#elif defined(__AVX2__)
using StreamedLane = __m256i;
inline void Stream(std::byte* to, StreamedLane lane) { _mm256_stream_si256(reinterpret_cast<StreamedLane*>(to), lane); }
#elif defined(__SSE2__)
using StreamedLane = __m128i;
inline void Stream(std::byte* to, StreamedLane lane) { _mm_stream_si128(reinterpret_cast<StreamedLane*>(to), lane); }
#endif

// Copies to places of memory of so many bytes, which in all are written once.
class StreamedCopy {
 public:
  explicit StreamedCopy(int64_t target_bytes) : streams_(target_bytes >= kLeastTarget) {}

  void Copy(const std::byte* from, std::byte* to, int64_t bytes) const {
    streams_&& bytes >= kLeastBytes ? Streaming(from, to, bytes) : Plain(from, to, bytes);
  }

  // Makes what this thread has written visible to others, which streams alone do not.
  void End() const {
#if defined(__SSE2__)
    if (streams_) _mm_sfence();
#endif
  }

 private:
  static constexpr int64_t kLeastBytes = 256;
  static constexpr int64_t kLeastTarget = int64_t{32} << 20;

  static void Plain(const std::byte* from, std::byte* to, int64_t bytes) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
  }

  static void Streaming(const std::byte* from, std::byte* to, int64_t bytes) {
#if defined(__SSE2__)
    constexpr int64_t kLane = sizeof(StreamedLane);
    int64_t done = static_cast<int64_t>(-reinterpret_cast<uintptr_t>(to) % size_t{kLane});
    Plain(from, to, done);
    for (; done + kLane <= bytes; done += kLane) {
      StreamedLane lane;
      std::memcpy(&lane, from + done, sizeof(lane));
      Stream(to + done, lane);
    }
    Plain(from + done, to + done, bytes - done);
#else
    Plain(from, to, bytes);
#endif
  }

  const bool streams_;
};

}  // namespace
}  // namespace acl_host
