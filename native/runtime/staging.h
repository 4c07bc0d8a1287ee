// Tensors of one call on the device, written and read piece by piece as the call's messages arrive and leave.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

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
// function returns when its bytes have arrived, so between two pieces a staging holds nothing but its tensors, however
// slow its client is. If the device takes host addresses, pieces are copied straight to their place. Any thread may use
// it, one at a time.
class Staging final : public DeviceWork {
 public:
  // The longest part of a file that is worth one piece of work; other calls' pieces get their turn in between.
  static constexpr std::size_t kPieceBytes = std::size_t{4} << 20;
  // Large enough to hide the start of a copy, small enough to overlap within a piece.
  static constexpr std::size_t kHalfBytes = std::size_t{1} << 20;

  // There is no path if the device takes host addresses. The owner is released last, when the memory has been.
  Staging(const AclLibrary& library, const DeviceContext& context, MemoryPool& memory, const CopyPath* path,
          StepWatch& steps, DeviceLoss& loss, std::shared_ptr<const void> owner);

  // Reserves device memory for one more tensor and returns its number, counted from 0. Throws OutOfMemory.
  [[nodiscard]] std::size_t Reserve(std::size_t size_bytes);

  // The same in host memory, for values that are checked before a device reads them.
  [[nodiscard]] std::size_t ReserveOnHost(std::size_t size_bytes);

  [[nodiscard]] void* address(std::size_t tensor) const { return tensors_.at(tensor).address(); }
  [[nodiscard]] bool is_on_host(std::size_t tensor) const { return tensors_.at(tensor).on_host != nullptr; }

  // Copies bytes to their place in a tensor. Throws std::out_of_range for bytes beyond the tensor's end, NotBegun after
  // the deadline, and AclError (507046 if it passed meanwhile). Every function throws AclError once the device is lost.
  void Write(std::size_t tensor, std::size_t offset, const void* data, std::size_t size_bytes, Deadline deadline);

  // Fills a tensor with zeros.
  void WriteZeros(std::size_t tensor, Deadline deadline);

  // Copies bytes of an open file, such as shared memory, which its owner may truncate at any time. Returns the number
  // of bytes that the file had. Throws std::system_error if the file cannot be read, and otherwise as Write does.
  [[nodiscard]] std::size_t ReadFile(std::size_t tensor, std::size_t offset, std::size_t size_bytes, int file,
                                     std::size_t file_offset, Deadline deadline);

  // Copies bytes of a tensor that was written, or that an operator has written. Throws as Write does.
  void Read(std::size_t tensor, std::size_t offset, void* target, std::size_t size_bytes, Deadline deadline);

  // Copies bytes of a tensor into an open file. Throws std::system_error if the file is full, and otherwise as Write
  // does.
  void WriteFile(std::size_t tensor, std::size_t offset, std::size_t size_bytes, int file, std::size_t file_offset,
                 Deadline deadline);

  [[nodiscard]] State Poll(int32_t timeout_ms) const noexcept override;

 private:
  struct Tensor {
    PoolBlock block;
    std::unique_ptr<std::byte[]> on_host;
    std::size_t size_bytes;

    [[nodiscard]] void* address() const noexcept { return on_host ? on_host.get() : block.address(); }
  };

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

  std::size_t Fill(std::size_t tensor, std::size_t offset, std::size_t size_bytes, const Source& source,
                   Deadline deadline);
  void Drain(std::size_t tensor, std::size_t offset, std::size_t size_bytes, const Sink& sink, Deadline deadline);
  // Throws what keeps a transfer from beginning.
  [[nodiscard]] std::byte* Begin(std::size_t tensor, std::size_t offset, std::size_t size_bytes,
                                 Deadline deadline) const;
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
  // Throws AclError if the code is not 0, after reporting it to the device.
  void Check(int code, const char* call) const;

  const std::shared_ptr<const void> owner_;  // first, so that it ends last
  const AclLibrary& library_;
  const DeviceContext& context_;
  MemoryPool& memory_;
  const CopyPath* const path_;
  StepWatch& steps_;
  DeviceLoss& loss_;
  std::vector<Tensor> tensors_;
  std::optional<Ring> ring_;  // during a transfer, and after one that failed
};

}  // namespace aclgrad
