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

// Large enough to hide the start of a copy, small enough to keep many halves pinned.
constexpr std::size_t kHalfBytes = std::size_t{4} << 20;
// Alignment of both addresses of an asynchronous copy. CANN requires it up to 8.3; later releases do not say.
constexpr std::size_t kAlignment = 64;

std::size_t RoundUp(std::size_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

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

Staging::Staging(const AclLibrary& library, aclrtContext context, MemoryPool& memory, MemoryPool& pinned,
                 StepWatch& steps, DeviceLoss& loss, std::optional<StreamLease> stream)
    : library_(library),
      context_(context),
      memory_(memory),
      pinned_(pinned),
      steps_(steps),
      loss_(loss),
      stream_(std::move(stream)) {}

std::size_t Staging::Reserve(std::size_t size_bytes) {
  MakeCurrent();
  tensors_.push_back({memory_.Allocate(size_bytes), nullptr, size_bytes});
  return tensors_.size() - 1;
}

std::size_t Staging::ReserveOnHost(std::size_t size_bytes) {
  // Not make_unique, which would write zeros first.
  tensors_.push_back({{}, std::unique_ptr<std::byte[]>(new std::byte[size_bytes]), size_bytes});
  return tensors_.size() - 1;
}

void Staging::Write(std::size_t tensor, std::size_t offset, const void* data, std::size_t size_bytes,
                    Deadline deadline) {
  const auto* next = static_cast<const std::byte*>(data);
  const auto copy = [&next](std::byte* target, std::size_t count) {
    std::memcpy(target, next, count);
    next += count;
    return count;
  };
  Fill(tensor, offset, size_bytes, copy, deadline);
}

void Staging::WriteZeros(std::size_t tensor, Deadline deadline) {
  const auto clear = [](std::byte* target, std::size_t count) {
    std::memset(target, 0, count);
    return count;
  };
  Fill(tensor, 0, tensors_.at(tensor).size_bytes, clear, deadline);
}

std::size_t Staging::ReadFile(std::size_t tensor, int file, std::size_t file_offset, Deadline deadline) {
  const auto read = [&file_offset, file](std::byte* target, std::size_t count) {
    const std::size_t done = ReadAll(file, target, count, file_offset);
    file_offset += done;
    return done;
  };
  return Fill(tensor, 0, tensors_.at(tensor).size_bytes, read, deadline);
}

std::size_t Staging::Fill(std::size_t tensor, std::size_t offset, std::size_t size_bytes, const Source& source,
                          Deadline deadline) {
  std::byte* place = Place(tensor, offset, size_bytes);
  loss_.ThrowIfLost();
  if (size_bytes == 0) return 0;
  if (!stream_ || is_on_host(tensor)) return source(place, size_bytes);
  MakeCurrent();
  read_ = {};
  std::size_t done = 0;
  while (done < size_bytes) {
    if (!written_.EndsAt(tensor, offset + done) || RoomBehind(written_) == 0) {
      Flush(deadline);
      written_ = {tensor, offset + done, 0};
    }
    std::byte* slot = SlotOf(half_, written_) + written_.size_bytes;
    const std::size_t count = source(slot, std::min(size_bytes - done, RoomBehind(written_)));
    if (count == 0) break;
    written_.size_bytes += count;
    done += count;
  }
  loss_.ThrowIfLost();
  return done;
}

void Staging::Finish(Deadline deadline) {
  // From here on an operator may write, which makes prefetched bytes stale.
  read_ = {};
  Flush(deadline);
  Wait(deadline);
  loss_.ThrowIfLost();
  loss_.RecordSuccess();
}

void Staging::Flush(Deadline deadline) {
  const Range range = std::exchange(written_, {});
  if (range.size_bytes == 0) return;
  // Waits for the copy of the other half, which overlapped the filling of this one. Without events it is not possible
  // to wait for one of two copies, so there is never more than one under way.
  Wait(deadline);
  MakeCurrent();
  std::byte* place = Place(range.tensor, range.offset, range.size_bytes);
  const std::byte* slot = SlotOf(half_, range);
  const std::size_t head = std::min(range.size_bytes, RoundUp(Misalignment(range)) - Misalignment(range));
  if (head != 0) Copy(place, slot, head);
  if (head != range.size_bytes) {
    StartCopy(place + head, slot + head, range.size_bytes - head, ACL_MEMCPY_HOST_TO_DEVICE);
  }
  half_ = 1 - half_;
}

void Staging::Wait(Deadline deadline) {
  if (!is_busy_) return;
  const StepWatch::Step step(steps_, deadline);
  // The halves may not be read until the wait is over, nor after it failed.
  const std::array<Range, 2> asked = std::exchange(read_, {});
  MakeCurrent();
  Check(library_->aclrtSynchronizeStreamWithTimeout((*stream_)->get(), MillisecondsUntil(deadline)),
        "aclrtSynchronizeStream");
  is_busy_ = false;
  read_ = asked;
}

void Staging::Read(std::size_t tensor, std::size_t offset, void* target, std::size_t size_bytes, Deadline deadline) {
  auto* next = static_cast<std::byte*>(target);
  const auto copy = [&next](const std::byte* source, std::size_t count) {
    std::memcpy(next, source, count);
    next += count;
  };
  Drain(tensor, offset, size_bytes, copy, deadline);
}

void Staging::WriteFile(std::size_t tensor, int file, std::size_t file_offset, Deadline deadline) {
  const auto write = [&file_offset, file](const std::byte* source, std::size_t count) {
    WriteAll(file, source, count, file_offset);
    file_offset += count;
  };
  Drain(tensor, 0, tensors_.at(tensor).size_bytes, write, deadline);
}

void Staging::Drain(std::size_t tensor, std::size_t offset, std::size_t size_bytes, const Sink& sink,
                    Deadline deadline) {
  const std::byte* place = Place(tensor, offset, size_bytes);
  loss_.ThrowIfLost();
  if (size_bytes == 0) return;
  if (!stream_ || is_on_host(tensor)) return sink(place, size_bytes);
  Flush(deadline);
  while (size_bytes != 0) {
    if (!read_[half_].Covers(tensor, offset)) {
      half_ = 1 - half_;
      if (!read_[half_].Covers(tensor, offset)) StartRead(half_, tensor, offset);
      Wait(deadline);
      StartRead(1 - half_, tensor, read_[half_].offset + read_[half_].size_bytes);
    }
    const Range& ready = read_[half_];
    const std::size_t skipped = offset - ready.offset;
    const std::size_t count = std::min(size_bytes, ready.size_bytes - skipped);
    sink(Half(half_) + skipped, count);
    offset += count;
    size_bytes -= count;
  }
  loss_.ThrowIfLost();
}

DeviceWork::State Staging::Settle(int32_t timeout_ms) const noexcept {
  return is_busy_ ? (*stream_)->Settle(timeout_ms) : State{true};
}

std::byte* Staging::Place(std::size_t tensor, std::size_t offset, std::size_t size_bytes) const {
  const Tensor& whole = tensors_.at(tensor);
  if (offset > whole.size_bytes || size_bytes > whole.size_bytes - offset) {
    throw std::out_of_range(std::to_string(size_bytes) + " bytes at " + std::to_string(offset) +
                            " do not fit into tensor " + std::to_string(tensor) + " of " +
                            std::to_string(whole.size_bytes) + " bytes");
  }
  return static_cast<std::byte*>(whole.address()) + offset;
}

std::byte* Staging::Half(std::size_t half) {
  if (halves_[half].address() == nullptr) halves_[half] = pinned_.Allocate(kHalfBytes);
  return static_cast<std::byte*>(halves_[half].address());
}

std::size_t Staging::Misalignment(const Range& range) const {
  return reinterpret_cast<uintptr_t>(Place(range.tensor, range.offset, 0)) % kAlignment;
}

std::size_t Staging::RoomBehind(const Range& range) const {
  return kHalfBytes - Misalignment(range) - range.size_bytes;
}

std::byte* Staging::SlotOf(std::size_t half, const Range& range) { return Half(half) + Misalignment(range); }

void Staging::StartRead(std::size_t half, std::size_t tensor, std::size_t offset) {
  read_[half] = {};
  if (offset == tensors_[tensor].size_bytes) return;
  // Starts at the aligned address before, so it fetches a few bytes more.
  offset -= std::min(offset, Misalignment({tensor, offset, 0}));
  const std::size_t count = std::min(kHalfBytes, tensors_[tensor].size_bytes - offset);
  MakeCurrent();
  StartCopy(Half(half), Place(tensor, offset, count), count, ACL_MEMCPY_DEVICE_TO_HOST);
  read_[half] = {tensor, offset, count};
}

void Staging::StartCopy(void* target, const void* source, std::size_t size_bytes, aclrtMemcpyKind kind) {
  // Has the watch's limit instead of the deadline, because this only starts a copy.
  const StepWatch::Step step(steps_);
  is_busy_ = true;
  Check(library_->aclrtMemcpyAsync(target, size_bytes, source, size_bytes, kind, (*stream_)->get()),
        "aclrtMemcpyAsync");
}

void Staging::Copy(std::byte* target, const std::byte* source, std::size_t size_bytes) const {
  const StepWatch::Step step(steps_);
  Check(library_->aclrtMemcpy(target, size_bytes, source, size_bytes, ACL_MEMCPY_HOST_TO_DEVICE), "aclrtMemcpy");
}

void Staging::MakeCurrent() const {
  const StepWatch::Step step(steps_);
  Check(library_->aclrtSetCurrentContext(context_), "aclrtSetCurrentContext");
}

void Staging::Check(int code, const char* call) const {
  try {
    library_.Check(code, call);
  } catch (const AclError& error) {
    loss_.Record(error.code());
    loss_.ThrowIfLost(error);
    throw;
  }
}

}  // namespace aclgrad
