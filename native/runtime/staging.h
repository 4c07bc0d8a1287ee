// A tensor on the device, written and read piece by piece as the messages of its call arrive and leave.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

#include "device_context.h"
#include "device_loss.h"
#include "device_work.h"
#include "memory_pool.h"
#include "stream_pool.h"

namespace aclgrad {

// What copies between host and device borrow while they last.
struct CopyPath {
  StreamPool& streams;
  MemoryPool& pinned;
  // May return streams: see StreamPool::Lease.
  const std::function<void()> reclaim;
};

// Pieces pass through pinned memory, a ring of two halves: while one is filled or emptied, the other is copied
// asynchronously between aligned addresses. Bytes before the first aligned address are copied separately. Every
// function returns when its bytes have arrived, so between two pieces a staging holds nothing but its tensor, however
// slow its client is. If the device takes host addresses, pieces are copied straight to their place. Any thread may use
// it, one at a time.
class Staging final : public DeviceWork {
 public:
  // The longest part of a file that is worth one piece of work; other calls' pieces get their turn in between.
  static constexpr std::size_t kPieceBytes = std::size_t{4} << 20;
  // Large enough to hide the start of a copy, small enough to overlap within a piece.
  static constexpr std::size_t kHalfBytes = std::size_t{1} << 20;

  // Host memory is for values that are checked before a device reads them.
  enum class Memory { kDevice, kHost };

  // What the stagings of a device have in common. There is no path if the device takes host addresses.
  struct Shared {
    const AclLibrary& library;
    const DeviceContext& context;
    MemoryPool& memory;
    const CopyPath* path;
    StepWatch& steps;
    DeviceLoss& loss;
  };

  // Reserves the tensor's memory; throws OutOfMemory, or std::bad_alloc for that of the host. The device's context has
  // to be current. The owner is released last, when the memory has been.
  Staging(const Shared& shared, std::size_t size_bytes, Memory kind, std::shared_ptr<const void> owner);

  [[nodiscard]] void* address() const noexcept { return on_host_ ? on_host_.get() : block_.address(); }
  [[nodiscard]] bool is_on_host() const noexcept { return on_host_ != nullptr; }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return size_bytes_; }

  // Copies bytes to their place in the tensor. Throws std::out_of_range for bytes beyond the tensor's end, NotBegun
  // after the deadline, and AclError (507046 if it passed meanwhile). Every function throws AclError once the device is
  // lost.
  void Write(std::size_t offset, const void* data, std::size_t size_bytes, Deadline deadline);

  // Copies bytes of an open file, such as shared memory, which its owner may truncate at any time. Returns the number
  // of bytes that the file had. Throws std::system_error if the file cannot be read, and otherwise as Write does.
  [[nodiscard]] std::size_t ReadFile(std::size_t offset, std::size_t size_bytes, int file, std::size_t file_offset,
                                     Deadline deadline);

  // Copies bytes of the tensor that was written, or that an operator has written. Throws as Write does.
  void Read(std::size_t offset, void* target, std::size_t size_bytes, Deadline deadline);

  // Copies bytes of the tensor into an open file. Throws std::system_error if the file is full, and otherwise as Write
  // does.
  void WriteFile(std::size_t offset, std::size_t size_bytes, int file, std::size_t file_offset, Deadline deadline);

  [[nodiscard]] State Poll(int32_t timeout_ms) const noexcept override;

 private:
  // The stream and the pinned memory of one transfer.
  struct Ring {
    StreamLease stream;
    std::array<PoolBlock, 2> halves;
    std::array<std::unique_ptr<std::byte[]>, 2> pageable;  // in the place of halves that are not to be had
    bool is_busy = false;                                  // a copy may be under way
  };

  // Fills at most size_bytes and returns how many; fewer if the source ends.
  using Source = std::function<std::size_t(std::byte* target, std::size_t size_bytes)>;
  using Sink = std::function<void(const std::byte* source, std::size_t size_bytes)>;

  std::size_t Fill(std::size_t offset, std::size_t size_bytes, const Source& source, Deadline deadline);
  void Drain(std::size_t offset, std::size_t size_bytes, const Sink& sink, Deadline deadline);
  // Throws what keeps a transfer from beginning.
  [[nodiscard]] std::byte* Begin(std::size_t offset, std::size_t size_bytes, Deadline deadline) const;
  // Borrows a ring, or waits for the copy that a failed transfer left behind.
  void Borrow(Deadline deadline);
  // Returns the ring.
  void End();
  void Wait(Deadline deadline);
  [[nodiscard]] std::byte* Half(std::size_t half);
  // Makes the copy at once if it has no pinned memory: an asynchronous copy would block as well.
  void StartCopy(void* target, const void* source, std::size_t size_bytes, aclrtMemcpyKind kind);
  void Copy(void* target, const void* source, std::size_t size_bytes, aclrtMemcpyKind kind) const;
  void MakeCurrent() const;
  // Does work, and reports an AclError that it throws to the device.
  template <typename Work>
  void Guard(const Work& work) const;
  // Throws AclError if the code is not 0.
  void Check(int code, const char* call) const;

  const std::shared_ptr<const void> owner_;  // first, so that it ends last
  const Shared shared_;
  const std::size_t size_bytes_;
  PoolBlock block_;
  std::unique_ptr<std::byte[]> on_host_;
  std::optional<Ring> ring_;  // during a transfer, and after one that failed
};

}  // namespace aclgrad
