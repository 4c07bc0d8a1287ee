#include "staging.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

namespace aclgrad {
namespace {

// The distance of an address from the aligned address before it.
std::size_t Misalignment(const std::byte* address) { return reinterpret_cast<uintptr_t>(address) % kCopyAlignment; }

// Returns fewer bytes if the file ends.
std::size_t ReadAll(int file, std::byte* target, std::size_t size_bytes, std::size_t offset) {
  std::size_t done = 0;
  while (done < size_bytes) {
    const ssize_t count = pread(file, target + done, size_bytes - done, static_cast<off_t>(offset + done));
    if (count == 0) break;
    if (count > 0) {
      done += static_cast<std::size_t>(count);
    } else if (errno != EINTR) {
      throw std::system_error(errno, std::generic_category());
    }
  }
  return done;
}

void WriteAll(int file, const std::byte* source, std::size_t size_bytes, std::size_t offset) {
  for (std::size_t done = 0; done < size_bytes;) {
    const ssize_t count = pwrite(file, source + done, size_bytes - done, static_cast<off_t>(offset + done));
    if (count >= 0) {
      done += static_cast<std::size_t>(count);
    } else if (errno != EINTR) {
      throw std::system_error(errno, std::generic_category());
    }
  }
}

}  // namespace

Staging::Staging(const Shared& shared, std::size_t size_bytes, Memory kind, std::shared_ptr<const void> owner)
    : owner_(std::move(owner)), shared_(shared), size_bytes_(size_bytes) {
  if (kind == Memory::kDevice) {
    block_ = shared_.memory.Allocate(size_bytes);
  } else {
    // Not make_unique, which would write zeros first.
    on_host_.reset(new std::byte[size_bytes]);
  }
}

template <typename Work>
void Staging::Guard(const Work& work) const {
  try {
    work();
  } catch (const AclError& error) {
    shared_.loss.Record(error);
    shared_.loss.ThrowIfLost(error);
    throw;
  }
}

void Staging::Write(std::size_t offset, const void* data, std::size_t size_bytes, Deadline deadline) {
  const auto* next = static_cast<const std::byte*>(data);
  const auto copy = [&next](std::byte* target, std::size_t count) {
    std::memcpy(target, next, count);
    next += count;
    return count;
  };
  Fill(offset, size_bytes, copy, deadline);
}

std::size_t Staging::ReadFile(std::size_t offset, std::size_t size_bytes, int file, std::size_t file_offset,
                              Deadline deadline) {
  const auto read = [&file_offset, file](std::byte* target, std::size_t count) {
    const std::size_t done = ReadAll(file, target, count, file_offset);
    file_offset += done;
    return done;
  };
  return Fill(offset, size_bytes, read, deadline);
}

std::size_t Staging::Fill(std::size_t offset, std::size_t size_bytes, const Source& source, Deadline deadline) {
  std::byte* place = Begin(offset, size_bytes, deadline);
  if (size_bytes == 0) return 0;
  if (shared_.path == nullptr || is_on_host()) return source(place, size_bytes);
  Borrow(deadline);
  std::size_t done = 0;
  for (std::size_t half = 0; done < size_bytes; half = 1 - half) {
    // As misaligned as its target.
    const std::size_t misalignment = Misalignment(place);
    std::byte* slot = Half(half) + misalignment;
    const std::size_t count = source(slot, std::min(size_bytes - done, kHalfBytes - misalignment));
    if (count == 0) break;
    // Waits for the copy of the other half, which overlapped the filling of this one. Without events it is not possible
    // to wait for one of two copies, so there is never more than one under way.
    Wait(deadline);
    const std::size_t head = std::min(count, (kCopyAlignment - misalignment) % kCopyAlignment);
    if (head != 0) Copy(place, slot, head, ACL_MEMCPY_HOST_TO_DEVICE);
    if (head != count) StartCopy(place + head, slot + head, count - head, ACL_MEMCPY_HOST_TO_DEVICE);
    place += count;
    done += count;
  }
  Wait(deadline);
  End();
  return done;
}

void Staging::Read(std::size_t offset, void* target, std::size_t size_bytes, Deadline deadline) {
  auto* next = static_cast<std::byte*>(target);
  const auto copy = [&next](const std::byte* source, std::size_t count) {
    std::memcpy(next, source, count);
    next += count;
  };
  Drain(offset, size_bytes, copy, deadline);
}

void Staging::WriteFile(std::size_t offset, std::size_t size_bytes, int file, std::size_t file_offset,
                        Deadline deadline) {
  const auto write = [&file_offset, file](const std::byte* source, std::size_t count) {
    WriteAll(file, source, count, file_offset);
    file_offset += count;
  };
  Drain(offset, size_bytes, write, deadline);
}

void Staging::Drain(std::size_t offset, std::size_t size_bytes, const Sink& sink, Deadline deadline) {
  const std::byte* place = Begin(offset, size_bytes, deadline);
  if (size_bytes == 0) return;
  if (shared_.path == nullptr || is_on_host()) return sink(place, size_bytes);
  Borrow(deadline);
  // Starts at the aligned address before, so the first copy has a few bytes more than were asked for.
  std::size_t skipped = std::min(offset, Misalignment(place));
  const std::byte* next = place - skipped;
  const std::byte* const end = place + size_bytes;
  std::size_t started = 0;
  const auto start = [&](std::size_t half) {
    started = std::min(kHalfBytes, static_cast<std::size_t>(end - next));
    if (started != 0) StartCopy(Half(half), next, started, ACL_MEMCPY_DEVICE_TO_HOST);
    next += started;
  };
  start(0);
  std::size_t half = 0;
  while (started != 0) {
    Wait(deadline);
    const std::size_t count = started - std::exchange(skipped, 0);
    const std::byte* ready = Half(half) + (started - count);
    half = 1 - half;
    start(half);
    sink(ready, count);
  }
  End();
}

std::byte* Staging::Begin(std::size_t offset, std::size_t size_bytes, Deadline deadline) const {
  if (offset > size_bytes_ || size_bytes > size_bytes_ - offset) {
    throw std::out_of_range(std::to_string(size_bytes) + " bytes at " + std::to_string(offset) +
                            " do not fit into a tensor of " + std::to_string(size_bytes_) + " bytes");
  }
  shared_.loss.ThrowIfLost();
  if (Deadline::clock::now() >= deadline) throw NotBegun("the copy", "its deadline passed");
  return static_cast<std::byte*>(address()) + offset;
}

void Staging::Borrow(Deadline deadline) {
  MakeCurrent();
  if (ring_) return Wait(deadline);
  ring_.emplace(Ring{shared_.path->streams.Lease(deadline, shared_.path->reclaim), {}, {}});
}

void Staging::End() {
  ring_.reset();
  shared_.loss.ThrowIfLost();
  shared_.loss.RecordSuccess();
}

void Staging::Wait(Deadline deadline) {
  if (!ring_->is_busy) return;
  const StepWatch::Step step(shared_.steps, deadline);
  Guard([&] { ring_->stream->Wait(deadline); });
  ring_->is_busy = false;
}

DeviceWork::State Staging::Poll(int32_t timeout_ms) const noexcept {
  return ring_ && ring_->is_busy ? ring_->stream->Poll(timeout_ms) : State{true};
}

std::byte* Staging::Half(std::size_t half) {
  if (ring_->pageable[half] != nullptr) return ring_->pageable[half].get();
  PoolBlock& block = ring_->halves[half];
  if (block.address() == nullptr) block = shared_.path->pinned.TryAllocate(kHalfBytes);
  if (block.address() == nullptr) ring_->pageable[half].reset(new std::byte[kHalfBytes]);
  return block.address() == nullptr ? ring_->pageable[half].get() : static_cast<std::byte*>(block.address());
}

void Staging::StartCopy(void* target, const void* source, std::size_t size_bytes, aclrtMemcpyKind kind) {
  if (ring_->pageable[0] != nullptr || ring_->pageable[1] != nullptr) return Copy(target, source, size_bytes, kind);
  // Has the watch's limit instead of the deadline, because this only starts a copy.
  const StepWatch::Step step(shared_.steps);
  ring_->is_busy = true;
  Check(shared_.library->aclrtMemcpyAsync(target, size_bytes, source, size_bytes, kind, ring_->stream->get()),
        "aclrtMemcpyAsync");
}

void Staging::Copy(void* target, const void* source, std::size_t size_bytes, aclrtMemcpyKind kind) const {
  const StepWatch::Step step(shared_.steps);
  Check(shared_.library->aclrtMemcpy(target, size_bytes, source, size_bytes, kind), "aclrtMemcpy");
}

void Staging::MakeCurrent() const { Check(shared_.context.MakeCurrent(), "aclrtSetCurrentContext"); }

void Staging::Check(int code, const char* call) const {
  Guard([&] { shared_.library.Check(code, call); });
}

}  // namespace aclgrad
