// Tensors of one call on the device, filled and emptied piece by piece while the call's messages come and go.
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

// Pieces go by way of pinned memory, in a ring of two halves: each is one asynchronous copy between aligned addresses,
// which overlaps what the network brings or takes of the other half. What begins elsewhere is copied by itself as far
// as the next aligned address. Where the device takes host addresses they are copied straight to their place.
// One thread at a time may use it; any thread may.
class Staging final : public DeviceWork {
 public:
  // Without a stream where the device takes host addresses.
  Staging(const AclLibrary& library, aclrtContext context, MemoryPool& memory, MemoryPool& pinned, StepWatch& steps,
          DeviceLoss& loss, std::optional<StreamLease> stream);

  // Reserves device memory for one more tensor and returns its number, counted from 0. Throws OutOfMemory.
  [[nodiscard]] std::size_t Reserve(std::size_t size_bytes);

  // The same in host memory, for values that are checked before a device reads them.
  [[nodiscard]] std::size_t ReserveOnHost(std::size_t size_bytes);

  [[nodiscard]] void* address(std::size_t tensor) const { return tensors_.at(tensor).address(); }
  [[nodiscard]] bool is_on_host(std::size_t tensor) const { return tensors_.at(tensor).on_host != nullptr; }

  // Copies bytes to their place in a tensor; data may change when it returns. Throws std::out_of_range for bytes beyond
  // the tensor's end, AclError (507046 where the deadline passed), as all that follow do once the device is lost.
  void Write(std::size_t tensor, std::size_t offset, const void* data, std::size_t size_bytes, Deadline deadline);

  // Fills a tensor with zeros.
  void WriteZeros(std::size_t tensor, Deadline deadline);

  // Fills a tensor from an open file, such as shared memory, whose owner may cut it short at any time. Returns how many
  // bytes it had from there on. Throws std::system_error where it cannot be read, and as Write does.
  [[nodiscard]] std::size_t ReadFile(std::size_t tensor, int file, std::size_t file_offset, Deadline deadline);

  // Waits until all that was written has arrived; only then may an operator read it, or write what was read before.
  void Finish(Deadline deadline);

  // Copies bytes of a tensor that an operator has written. What follows them is fetched meanwhile.
  void Read(std::size_t tensor, std::size_t offset, void* target, std::size_t size_bytes, Deadline deadline);

  // Writes all of a tensor into an open file. Throws std::system_error where it takes no more, and as Read does.
  void WriteFile(std::size_t tensor, int file, std::size_t file_offset, Deadline deadline);

  [[nodiscard]] State Settle(int32_t timeout_ms) const noexcept override;

 private:
  struct Tensor {
    PoolBlock block;
    std::unique_ptr<std::byte[]> on_host;
    std::size_t size_bytes;

    [[nodiscard]] void* address() const noexcept { return on_host ? on_host.get() : block.address(); }
  };

  // Where in a tensor the bytes in one half of the ring belong.
  struct Range {
    std::size_t tensor = 0;
    std::size_t offset = 0;
    std::size_t size_bytes = 0;

    [[nodiscard]] bool Covers(std::size_t of_tensor, std::size_t at) const noexcept {
      return tensor == of_tensor && offset <= at && at < offset + size_bytes;
    }
    // Whether bytes that go there can be put behind these.
    [[nodiscard]] bool EndsAt(std::size_t of_tensor, std::size_t at) const noexcept {
      return size_bytes != 0 && tensor == of_tensor && at == offset + size_bytes;
    }
  };

  // Fills at most so many bytes and says how many; fewer where there are no more.
  using Source = std::function<std::size_t(std::byte* target, std::size_t size_bytes)>;
  using Sink = std::function<void(const std::byte* source, std::size_t size_bytes)>;

  std::size_t Fill(std::size_t tensor, std::size_t offset, std::size_t size_bytes, const Source& source,
                   Deadline deadline);
  void Drain(std::size_t tensor, std::size_t offset, std::size_t size_bytes, const Sink& sink, Deadline deadline);
  // Sends the bytes that were written into the half in use on their way, and takes the other half into use.
  void Flush(Deadline deadline);
  void Wait(Deadline deadline);
  // How far the range's place on the device is behind an aligned address.
  [[nodiscard]] std::size_t Misalignment(const Range& range) const;
  // Where the range begins in a half: as far behind an aligned address as its place on the device.
  [[nodiscard]] std::byte* SlotOf(std::size_t half, const Range& range);
  [[nodiscard]] std::size_t RoomBehind(const Range& range) const;
  [[nodiscard]] std::byte* Place(std::size_t tensor, std::size_t offset, std::size_t size_bytes) const;
  [[nodiscard]] std::byte* Half(std::size_t half);
  void StartCopy(void* target, const void* source, std::size_t size_bytes, aclrtMemcpyKind kind);
  void Copy(std::byte* target, const std::byte* source, std::size_t size_bytes) const;
  void MakeCurrent() const;
  // Throws AclError if the code is not 0, after telling the device of it.
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
  std::array<Range, 2> read_;  // what each half was asked to hold
  Range written_;              // what the half in use holds for the device
  std::size_t half_ = 0;       // the one in use
  bool is_busy_ = false;       // a copy may be under way
  std::optional<StreamLease> stream_;
};

}  // namespace aclgrad
