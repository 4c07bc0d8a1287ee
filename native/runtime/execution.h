// One operator call on its way through a device: the stream, the memory and the tensors that it holds meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "arguments.h"
#include "memory_pool.h"
#include "operators.h"
#include "stream_pool.h"

namespace aclgrad {

// An input in host memory. What data does not cover has unspecified values on the device: everything of a shape-only
// input (null data), and what follows a prefix, such as the part of a mask that no device reads.
struct InputView {
  std::vector<int64_t> shape;
  aclDataType dtype;
  const void* data = nullptr;
  std::size_t size_bytes = 0;
  bool is_prefix = false;
};

// The output in host memory.
struct OutputView {
  std::vector<int64_t> shape;
  aclDataType dtype;
  void* data;
  std::size_t size_bytes;
};

// Inputs and attributes in aclnn order.
struct OperatorCall {
  std::vector<InputView> inputs;
  std::vector<Attribute> attributes;
  OutputView output;
};

class Execution {
 public:
  Execution(const AclLibrary& library, MemoryPool& memory, std::unique_ptr<StreamLease> stream);

  // Copies in, plans, launches, waits and copies out. Throws what Device::Execute throws.
  void Run(const Operator& op, const OperatorCall& call, int32_t timeout_ms);

  // True unless the device may still work for this execution; only then may the memory be given back.
  [[nodiscard]] bool Finished() const noexcept;

  // Waits for the device at most so long; whether it finished is for Finished to tell.
  void Wait(int32_t timeout_ms) const noexcept;

 private:
  void CopyIn(const InputView& input);
  void PrepareOutput(const OutputView& output);
  void Launch(const Operator& op, const OperatorCall& call);
  void CopyOut(const OutputView& output) const;
  void Copy(void* target, std::size_t capacity, const void* source, std::size_t size_bytes, aclrtMemcpyKind kind) const;
  // Throws std::invalid_argument for a shape that is none or whose size overflows.
  [[nodiscard]] std::size_t SizeBytes(const std::vector<int64_t>& shape, aclDataType dtype) const;
  [[nodiscard]] const DeviceBlock& Allocate(std::size_t size_bytes);

  const AclLibrary& library_;
  MemoryPool& memory_;
  std::vector<DeviceBlock> blocks_;
  std::unique_ptr<StreamLease> stream_;
  std::vector<TensorHandle> inputs_;
  TensorHandle output_;
  void* output_address_ = nullptr;
  bool launched_ = false;
};

}  // namespace aclgrad
