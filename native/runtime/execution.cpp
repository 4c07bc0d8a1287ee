#include "execution.h"

#include <stdexcept>
#include <string>
#include <utility>

#include "error.h"

namespace aclgrad {
namespace {

void ExpectSize(const char* tensor, std::size_t given_bytes, std::size_t needed_bytes) {
  if (given_bytes == needed_bytes) return;
  throw std::invalid_argument(std::string("the ") + tensor + " has " + std::to_string(given_bytes) +
                              " bytes; its shape takes " + std::to_string(needed_bytes));
}

}  // namespace

Execution::Execution(const AclLibrary& library, MemoryPool& memory, std::unique_ptr<StreamLease> stream)
    : library_(library), memory_(memory), stream_(std::move(stream)) {}

void Execution::Run(const Operator& op, const OperatorCall& call, int32_t timeout_ms) {
  for (const InputView& input : call.inputs) CopyIn(input);
  PrepareOutput(call.output);
  Launch(op, call);
  library_.Check(library_->aclrtSynchronizeStreamWithTimeout(stream_->get(), timeout_ms), "aclrtSynchronizeStream");
  CopyOut(call.output);
}

bool Execution::Finished() const noexcept {
  if (!launched_) return true;
  aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
  // An error means a lost device: its memory is not handed out again either.
  return library_->aclrtStreamQuery(stream_->get(), &status) == ACL_SUCCESS && status == ACL_STREAM_STATUS_COMPLETE;
}

void Execution::Wait(int32_t timeout_ms) const noexcept {
  static_cast<void>(library_->aclrtSynchronizeStreamWithTimeout(stream_->get(), timeout_ms));
}

void Execution::CopyIn(const InputView& input) {
  const std::size_t size = SizeBytes(input.shape, input.dtype);
  const DeviceBlock& block = Allocate(size);
  if (input.data != nullptr) {
    if (!input.is_prefix || input.size_bytes > size) ExpectSize("input", input.size_bytes, size);
    // Blocking, because the host memory is pageable: an asynchronous copy would block as well and copy once more.
    Copy(block.address(), block.capacity(), input.data, input.size_bytes, ACL_MEMCPY_HOST_TO_DEVICE);
  }
  inputs_.push_back(MakeTensor(library_.functions(), input.shape, input.dtype, block.address()));
}

void Execution::PrepareOutput(const OutputView& output) {
  const std::size_t size = SizeBytes(output.shape, output.dtype);
  ExpectSize("output", output.size_bytes, size);
  output_address_ = Allocate(size).address();
  output_ = MakeTensor(library_.functions(), output.shape, output.dtype, output_address_);
}

void Execution::Launch(const Operator& op, const OperatorCall& call) {
  ArgumentReader reader(library_.functions(), inputs_, output_, call.attributes);
  library_.Check(op.plan(reader), "phase 1");
  // Phase 2 consumes the executor whatever happens; until then it is ours to destroy.
  ExecutorHandle executor(reader.executor(), {library_->aclDestroyAclOpExecutor});
  void* workspace = reader.workspace_size() != 0 ? Allocate(reader.workspace_size()).address() : nullptr;
  launched_ = true;
  library_.Check(op.launch(workspace, reader.workspace_size(), executor.release(), stream_->get()), "phase 2");
}

void Execution::CopyOut(const OutputView& output) const {
  Copy(output.data, output.size_bytes, output_address_, output.size_bytes, ACL_MEMCPY_DEVICE_TO_HOST);
}

void Execution::Copy(void* target, std::size_t capacity, const void* source, std::size_t size_bytes,
                     aclrtMemcpyKind kind) const {
  if (size_bytes == 0) return;
  library_.Check(library_->aclrtMemcpy(target, capacity, source, size_bytes, kind), "aclrtMemcpy");
}

const DeviceBlock& Execution::Allocate(std::size_t size_bytes) {
  return blocks_.emplace_back(memory_.Allocate(size_bytes));
}

std::size_t Execution::SizeBytes(const std::vector<int64_t>& shape, aclDataType dtype) const {
  std::size_t size = library_->aclDataTypeSize(dtype);
  if (size == 0) throw std::invalid_argument("the library has no data type " + std::to_string(dtype));
  for (const int64_t extent : shape) {
    if (extent < 0) throw std::invalid_argument("a dimension is negative");
    if (__builtin_mul_overflow(size, static_cast<std::size_t>(extent), &size)) {
      throw std::invalid_argument("the size of a tensor overflows");
    }
  }
  return size;
}

}  // namespace aclgrad
