// The copies between host and device of one lane.
//
// On a device that takes no host addresses, bytes pass through a block of pinned memory, and the stream makes the
// copies: inputs before the first kernel, outputs after the last. Tensors that do not fit into it are copied from and
// to pageable memory, which blocks: their copies take so long that the way of starting them no longer matters.
#pragma once

#include <cstddef>
#include <map>
#include <tuple>
#include <vector>

#include "acl_library.h"
#include "lane_memory.h"
#include "operator_call.h"
#include "step_watch.h"
#include "stream.h"

namespace aclgrad {

class LaneCopies {
 public:
  // The inputs of most calls, and then their outputs. The copies of larger tensors take milliseconds.
  static constexpr std::size_t kMostPinnedBytes = std::size_t{4} << 20;

  // Steps that read the same bytes share a copy if is_shared.
  LaneCopies(const AclLibrary& library, LaneMemory& memory, MemoryPool& pinned_memory, StepWatch& steps, bool is_shared)
      : library_(library), memory_(memory), pinned_memory_(pinned_memory), steps_(steps), is_shared_(is_shared) {}

  // An input's copy: its number, and where it will be.
  struct Arrival {
    std::size_t number;
    void* address;
  };

  // Takes memory of this size for bytes of the host, of which there may be fewer.
  [[nodiscard]] Arrival AddInput(const HostBytes& bytes, std::size_t size_bytes);

  // Has the copy made: a step will run that reads it.
  void Need(std::size_t number) { inputs_[number].is_needed = true; }

  // What an output that the host gets takes of the pinned memory.
  [[nodiscard]] static std::size_t PinnedBytes(std::size_t size_bytes) noexcept;

  // Fills pinned memory, and makes the copies that do not fit. Nothing of the lane may be queued yet. The outputs take
  // so much of the pinned memory, after the inputs.
  void PrepareInputs(std::size_t pinned_output_bytes);
  void QueueInputs(const Stream& stream) const;

  // An output that the host gets from here, which may be the host's memory itself. It must outlive the copies.
  void AddOutput(const OutputBytes& output, const void* address);
  void QueueOutputs(const Stream& stream);
  // Hands out the outputs when the stream is done.
  void FinishOutputs() const;

 private:
  struct Input {
    HostBytes bytes;
    void* address;
    std::size_t size_bytes;
    bool is_needed;
    std::byte* pinned;  // null if there is none for it
  };
  struct Output {
    const OutputBytes& bytes;
    const void* address;
    std::byte* pinned;
  };
  using Key = std::tuple<const void*, std::size_t, std::size_t>;

  // A part of the pinned memory; null if the rest is too small.
  [[nodiscard]] std::byte* TakePinned(std::size_t size_bytes);
  void Queue(void* target, const void* source, std::size_t size_bytes, aclrtMemcpyKind kind,
             const Stream& stream) const;
  void Copy(void* target, std::size_t capacity, const void* source, std::size_t size_bytes, aclrtMemcpyKind kind) const;

  const AclLibrary& library_;
  LaneMemory& memory_;
  MemoryPool& pinned_memory_;
  StepWatch& steps_;
  const bool is_shared_;
  PoolBlock pinned_;  // empty if there is none to be had
  std::size_t pinned_bytes_ = 0;
  std::vector<Input> inputs_;
  std::map<Key, std::size_t> shared_;
  std::vector<Output> outputs_;
};

}  // namespace aclgrad
