// Tensors, arrays, scalars, executors and launches.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "accesses.h"
#include "aclnn/aclnn_status.h"
#include "operators.h"
#include "real.h"
#include "report.h"
#include "session.h"

namespace acl_strict {
namespace {

constexpr uintptr_t kTensorAlignment = 32;

struct Tensor {
  int64_t begin = 0;        // of the view's first byte, relative to the address
  uint64_t size_bytes = 0;  // to the view's last byte
  uint64_t storage_bytes = 0;
  std::atomic<void*> address{nullptr};
};

struct Executor {
  uint64_t workspace_bytes = 0;
  std::vector<Operand> operands;
  std::vector<std::shared_ptr<Tensor>> tensors;  // of the operands; null for an unknown one
  std::atomic<bool> is_repeatable{false};
  std::atomic<bool> is_running{false};
  std::mutex mutex;  // of what follows
  // By operand: what a setter named in its place. The executor does not know that tensor.
  std::map<size_t, std::shared_ptr<Tensor>> rebound;
};

// The memory that a tensor is a view of.
struct Storage {
  const void* address;
  uint64_t size_bytes;
};

struct Launch {
  std::vector<Access> accesses;
  Result result = Result::kRight;
};

// CANN keeps the executor of a thread's last phase 1. Null once the thread has called anything else.
thread_local const aclOpExecutor* last_planned = nullptr;

// Marks an executor while a thread is in its phase 2.
class Running {
 public:
  explicit Running(Executor& executor) : executor_(executor) {
    if (!executor.is_running.exchange(true)) return;
    Refuse("executor run twice at once", "by two threads; again in " + Origin::Here().Text());
  }
  ~Running() { executor_.is_running = false; }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  Executor& executor_;
};

// The bytes from the first to the last element of a view. A shape whose size overflows has none: it is never launched.
std::shared_ptr<Tensor> Describe(const int64_t* dims, uint64_t count, const int64_t* strides, int64_t offset,
                                 size_t element_bytes, void* address) {
  auto tensor = std::make_shared<Tensor>();
  tensor->address = address;
  int64_t lowest = offset;
  int64_t highest = offset;
  int64_t row_major = 1;
  for (uint64_t axis = count; axis-- > 0;) {
    if (dims[axis] <= 0) return tensor;
    int64_t reach = 0;
    if (__builtin_mul_overflow(dims[axis] - 1, strides == nullptr ? row_major : strides[axis], &reach)) return tensor;
    int64_t& end = reach < 0 ? lowest : highest;
    if (__builtin_add_overflow(end, reach, &end) ||
        (strides == nullptr && __builtin_mul_overflow(row_major, dims[axis], &row_major))) {
      return tensor;
    }
  }
  int64_t size_bytes = 0;
  if (__builtin_mul_overflow(lowest, static_cast<int64_t>(element_bytes), &tensor->begin) ||
      __builtin_sub_overflow(highest, lowest, &size_bytes) || __builtin_add_overflow(size_bytes, 1, &size_bytes) ||
      __builtin_mul_overflow(size_bytes, static_cast<int64_t>(element_bytes), &size_bytes)) {
    return tensor;
  }
  tensor->size_bytes = static_cast<uint64_t>(size_bytes);
  return tensor;
}

// An operand's data must be aligned, and own the bytes behind them that kernels may touch; a view may begin anywhere,
// and end before its storage does. Two inputs may be views of one tensor.
void CheckOperand(size_t index, const std::vector<Storage>& storages, const std::vector<Access>& all,
                  const StreamName& stream) {
  const Storage& storage = storages[index];
  const Access& operand = all[index];
  const void* const data = storage.address;
  if (reinterpret_cast<uintptr_t>(data) % kTensorAlignment != 0) {
    Refuse("misaligned tensor", "an address that is no multiple of " + std::to_string(kTensorAlignment) +
                                    "; launched in " + Origin::Here().Text());
  }
  const std::byte* const behind = std::max(static_cast<const std::byte*>(operand.address) + operand.size_bytes,
                                           static_cast<const std::byte*>(data) + storage.size_bytes);
  const auto used_bytes = static_cast<uint64_t>(behind - static_cast<const std::byte*>(data));
  // Nobody writes behind an input: of a tensor that several streams read, each may have another part.
  const Access padding{behind, RoundUpToGranule(used_bytes) - used_bytes + PaddingBytes(), operand.writes};
  CheckUnused(padding, &stream);
  const auto block = TheSession().memory.Find(operand.address);
  const auto end = reinterpret_cast<uintptr_t>(padding.address) + padding.size_bytes;
  const bool is_inside = block && end - block->base <= block->charged_bytes;
  bool is_own = true;
  for (size_t at = 0; at < all.size(); ++at) {
    const bool is_same_tensor = storages[at].address == data && !all[at].writes && !operand.writes;
    is_own &= is_same_tensor || !Overlap(padding, all[at]);
  }
  if (is_inside && is_own) return;
  Refuse("padding shared", "the " + std::to_string(padding.size_bytes) + " bytes behind an operand of " +
                               std::to_string(operand.size_bytes) +
                               (is_inside ? " are another's" : " are outside its allocation") + "; launched in " +
                               Origin::Here().Text());
}

// Returns which operand a setter's index names, or the number of operands if it names none. Indices of inputs count
// inputs alone, and those of outputs outputs alone.
size_t OperandOf(const Executor& executor, std::string_view setter, size_t index) {
  const bool is_of_inputs = setter.find("Input") != std::string_view::npos;
  const bool is_of_outputs = setter.find("Output") != std::string_view::npos;
  for (size_t at = 0; at < executor.operands.size(); ++at) {
    if (executor.operands[at].is_output ? is_of_inputs : is_of_outputs) continue;
    if (index-- == 0) return at;
  }
  return executor.operands.size();
}

// Inputs without an address are shapes alone.
Launch CheckLaunch(Executor& executor, void* workspace, uint64_t workspace_bytes, aclrtStream stream) {
  Session& session = TheSession();
  if (workspace_bytes < executor.workspace_bytes) {
    Refuse("workspace too small", std::to_string(workspace_bytes) + " bytes, but " +
                                      std::to_string(executor.workspace_bytes) + " are needed; given in " +
                                      Origin::Here().Text());
  }
  const std::lock_guard<std::mutex> lock(executor.mutex);
  std::vector<Storage> data;
  std::vector<Access> accesses;
  for (size_t index = 0; index < executor.operands.size(); ++index) {
    const Operand& operand = executor.operands[index];
    session.objects.CheckAlive(operand.tensor);
    const auto rebound = executor.rebound.find(index);
    const Tensor* const tensor =
        rebound == executor.rebound.end() ? executor.tensors[index].get() : rebound->second.get();
    void* const address = tensor == nullptr ? nullptr : tensor->address.load();
    if (address == nullptr || tensor->size_bytes == 0) continue;
    data.push_back({address, tensor->storage_bytes});
    accesses.push_back({static_cast<const std::byte*>(address) + tensor->begin, tensor->size_bytes, operand.is_output});
  }
  if (workspace != nullptr && executor.workspace_bytes > 0) {
    data.push_back({workspace, executor.workspace_bytes});
    accesses.push_back({workspace, executor.workspace_bytes, true});
  }
  Result result = CheckDevice(accesses, stream);
  if (!executor.rebound.empty()) result = Result::kWrongBytes;
  CheckReachable(accesses);
  if (!session.host_pointers) {
    const StreamName name = NameOf(stream);
    for (size_t index = 0; index < accesses.size(); ++index) CheckOperand(index, data, accesses, name);
  }
  return {accesses, result};
}

}  // namespace

aclnnStatus SetAddress(SetAddressFunction* real, aclOpExecutor* executor, size_t index, aclTensor* tensor,
                       void* address) {
  // The tensor gets its address even if the call then fails.
  if (const auto facts = TheSession().objects.FactsOf<Tensor>(tensor)) facts->address = address;
  const aclnnStatus status = real(executor, index, tensor, address);
  const auto target = status == OK ? TheSession().objects.FactsOf<Executor>(executor) : nullptr;
  if (target == nullptr) return status;
  const std::lock_guard<std::mutex> lock(target->mutex);
  bool is_own = false;
  for (size_t at = 0; at < target->operands.size(); ++at) {
    if (target->operands[at].tensor != tensor) continue;
    is_own = true;
    target->rebound.erase(at);
  }
  if (is_own) return status;
  target->rebound[OperandOf(*target, CurrentFunction(), index)] = TheSession().objects.FactsOf<Tensor>(tensor);
  Report("rebound to another tensor",
         "an executor, to a tensor that its phase 1 did not get; set the address of one that it got; in " +
             Origin::Here().Text());
  return status;
}

void ForgetPlanned() noexcept { last_planned = nullptr; }

void NoteExecutor(aclOpExecutor* executor, uint64_t workspace_bytes, const std::vector<Operand>& operands) {
  auto facts = std::make_shared<Executor>();
  facts->workspace_bytes = workspace_bytes;
  facts->operands = operands;
  for (const Operand& operand : operands)
    facts->tensors.push_back(TheSession().objects.FactsOf<Tensor>(operand.tensor));
  TheSession().objects.Add(kExecutor, executor, std::move(facts));
  last_planned = executor;
}

aclnnStatus PhaseTwo(PhaseTwoFunction* real, void* workspace, uint64_t workspace_bytes, aclOpExecutor* executor,
                     aclrtStream stream) {
  Session& session = TheSession();
  const auto facts = executor == nullptr ? nullptr : session.objects.FactsOf<Executor>(executor);
  if (facts == nullptr) return real(workspace, workspace_bytes, executor, stream);
  const Running running(*facts);
  const bool is_consumed = !facts->is_repeatable;
  if (is_consumed) (void)session.objects.Retire(executor, ObjectLedger::End::kLaunched);
  Launch launch;
  try {
    CheckStream(stream);
    launch = CheckLaunch(*facts, workspace, workspace_bytes, stream);
  } catch (const Offence&) {
    // A refused launch consumes its executor as well.
    if (is_consumed) (void)Real().aclDestroyAclOpExecutor(executor);
    throw;
  }
  const uint64_t number = ++session.launches;
  const bool is_right = launch.result == Result::kRight;
  const aclnnStatus status = is_right ? real(workspace, workspace_bytes, executor, stream)
                                      : WriteWrong(launch.result, launch.accesses, stream);
  if (!is_right && is_consumed) (void)Real().aclDestroyAclOpExecutor(executor);
  if (status == OK && !launch.accesses.empty()) {
    session.work.Begin(NameOf(stream), std::move(launch.accesses), "launch", number);
  }
  return status;
}

aclTensor* checked::aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType,
                                    const int64_t* stride, int64_t offset, aclFormat format, const int64_t* storageDims,
                                    uint64_t storageDimsNum, void* tensorData) {
  aclTensor* const tensor = Real().aclCreateTensor(viewDims, viewDimsNum, dataType, stride, offset, format, storageDims,
                                                   storageDimsNum, tensorData);
  if (tensor == nullptr) return nullptr;
  const size_t element_bytes = Real().aclDataTypeSize(dataType);
  auto facts = Describe(viewDims, viewDimsNum, stride, offset, element_bytes, tensorData);
  facts->storage_bytes = element_bytes;
  for (uint64_t axis = 0; axis < storageDimsNum; ++axis) {
    const auto size = static_cast<uint64_t>(std::max<int64_t>(storageDims[axis], 0));
    if (__builtin_mul_overflow(facts->storage_bytes, size, &facts->storage_bytes)) facts->storage_bytes = 0;
  }
  TheSession().objects.Add("an aclTensor", tensor, std::move(facts));
  return tensor;
}

aclnnStatus checked::aclSetAclOpExecutorRepeatable(aclOpExecutor* executor) {
  const auto facts = executor == nullptr ? nullptr : TheSession().objects.FactsOf<Executor>(executor);
  if (facts != nullptr && executor != last_planned) {
    Refuse("repeatable set late",
           "after another call of the library, or on another thread; in " + Origin::Here().Text(), ACLNN_ERR_INNER);
  }
  const aclnnStatus status = Real().aclSetAclOpExecutorRepeatable(executor);
  if (status == OK && facts != nullptr) facts->is_repeatable = true;
  return status;
}

aclnnStatus checked::aclDestroyAclOpExecutor(aclOpExecutor* executor) {
  const ObjectLedger& objects = TheSession().objects;
  const auto facts = executor == nullptr ? nullptr : objects.FactsOf<Executor>(executor);
  if (facts != nullptr && facts->is_repeatable) {
    for (const Operand& operand : facts->operands) {
      if (!objects.HasEnded(operand.tensor)) continue;
      Report("tensor destroyed before its executor", "which ends in " + Origin::Here().Text());
    }
  }
  return DestroyObject(Real().aclDestroyAclOpExecutor, executor);
}

aclnnStatus checked::aclSetRawTensorAddr(aclTensor* tensor, void* addr) {
  if (const auto facts = TheSession().objects.FactsOf<Tensor>(tensor)) facts->address = addr;
  return Real().aclSetRawTensorAddr(tensor, addr);
}

}  // namespace acl_strict
