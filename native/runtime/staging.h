// Tensors of one call on the device, written and read piece by piece as the call's messages arrive and leave.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "device_loss.h"
#include "device_work.h"
#include "memory_pool.h"
#include "stream_pool.h"

namespace aclgrad {

// Pieces pass through pinned memory, a ring of two halves. Each half is one asynchronous copy between aligned
// addresses, and overlaps the network's work on the other half. Bytes before the first aligned address are copied
// separately. If the device takes host addresses, pieces are copied straight to their place. Any thread may use it, one
// at a time.
class Staging final : public DeviceWork {
 public:
  // The stream is empty if the device takes host addresses.
  Staging(const AclLibrary& library, aclrtContext context, MemoryPool& memory, MemoryPool& pinned, StepWatch& steps,
          DeviceLoss& loss, std::optional<StreamLease> stream);

  // Reserves device memory for one more tensor and returns its number, counted from 0. Throws OutOfMemory.
  [[nodiscard]] std::size_t Reserve(std::size_t size_bytes);

  // The same in host memory, for values that are checked before a device reads them.
  [[nodiscard]] std::size_t ReserveOnHost(std::size_t size_bytes);

  [[nodiscard]] void* address(std::size_t tensor) const { return tensors_.at(tensor).address(); }
  [[nodiscard]] bool is_on_host(std::size_t tensor) const { return tensors_.at(tensor).on_host != nullptr; }

  // Copies bytes to their place in a tensor; data may change when it returns. Throws std::out_of_range for bytes beyond
  // the tensor's end, and AclError (507046 if the deadline passed). Every function throws AclError once the device is
  // lost.
  void Write(std::size_t tensor, std::size_t offset, const void* data, std::size_t size_bytes, Deadline deadline);

  // Fills a tensor with zeros.
  void WriteZeros(std::size_t tensor, Deadline deadline);

  // Fills a tensor from an open file, such as shared memory, which its owner may truncate at any time. Returns the
  // number of bytes read. Throws std::system_error if the file cannot be read, and what Write throws.
  [[nodiscard]] std::size_t ReadFile(std::size_t tensor, int file, std::size_t file_offset, Deadline deadline);

  // Waits until everything written has arrived. Only then may an operator read it, or write a tensor that was read.
  void Finish(Deadline deadline);

  // Copies bytes of a tensor that an operator has written, and prefetches the bytes that follow them.
  void Read(std::size_t tensor, std::size_t offset, void* target, std::size_t size_bytes, Deadline deadline);

  // Writes a whole tensor into an open file. Throws std::system_error if the file is full, and what Read throws.
  void WriteFile(std::size_t tensor, int file, std::size_t file_offset, Deadline deadline);

  [[nodiscard]] State Settle(int32_t timeout_ms) const noexcept override;

 private:
  struct Tensor {
    PoolBlock block;
    std::unique_ptr<std::byte[]> on_host;
    std::size_t size_bytes;

    [[nodiscard]] void* address() const noexcept { return on_host ? on_host.get() : block.address(); }
  };

  // The part of a tensor that one half of the ring holds.
  struct Range {
    std::size_t tensor = 0;
    std::size_t offset = 0;
    std::size_t size_bytes = 0;

    [[nodiscard]] bool Covers(std::size_t of_tensor, std::size_t at) const noexcept {
      return tensor == of_tensor && offset <= at && at < offset + size_bytes;
    }
    // Whether bytes for that place directly follow these.
    [[nodiscard]] bool EndsAt(std::size_t of_tensor, std::size_t at) const noexcept {
      return size_bytes != 0 && tensor == of_tensor && at == offset + size_bytes;
    }
  };

  // Fills at most size_bytes and returns how many; fewer if the source ends.
  using Source = std::function<std::size_t(std::byte* target, std::size_t size_bytes)>;
  using Sink = std::function<void(const std::byte* source, std::size_t size_bytes)>;

  std::size_t Fill(std::size_t tensor, std::size_t offset, std::size_t size_bytes, const Source& source,
                   Deadline deadline);
  void Drain(std::size_t tensor, std::size_t offset, std::size_t size_bytes, const Sink& sink, Deadline deadline);
  // Starts the copy of the half in use, and switches to the other half.
  void Flush(Deadline deadline);
  void Wait(Deadline deadline);
  // The distance of the range's device address from the aligned address before it.
  [[nodiscard]] std::size_t Misalignment(const Range& range) const;
  // The start of the range in a half: as misaligned as its device address.
  [[nodiscard]] std::byte* SlotOf(std::size_t half, const Range& range);
  [[nodiscard]] std::size_t RoomBehind(const Range& range) const;
  [[nodiscard]] std::byte* Place(std::size_t tensor, std::size_t offset, std::size_t size_bytes) const;
  [[nodiscard]] std::byte* Half(std::size_t half);
  void StartCopy(void* target, const void* source, std::size_t size_bytes, aclrtMemcpyKind kind);
  void Copy(std::byte* target, const std::byte* source, std::size_t size_bytes) const;
  void MakeCurrent() const;
  // Throws AclError if the code is not 0, after reporting it to the device.
  void Check(int code, const char* call) const;
  void StartRead(std::size_t half, std::size_t tensor, std::size_t offset);

  const AclLibrary& library_;
  aclrtContext const context_;
  MemoryPool& memory_;
  MemoryPool& pinned_;
  StepWatch& steps_;
  DeviceLoss& loss_;
  std::vector<Tensor> tensors_;
  std::array<PoolBlock, 2> halves_;
  std::array<Range, 2> read_;  // the part that each half was asked to prefetch
  Range written_;              // the part that the half in use holds for the device
  std::size_t half_ = 0;       // the one in use
  bool is_busy_ = false;       // a copy may be under way
  std::optional<StreamLease> stream_;
};

}  // namespace aclgrad
