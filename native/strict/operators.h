// The two phases of all operators, the addresses of their tensors, and the end of objects: functions that are known by
// their types.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <vector>

#include "accesses.h"
#include "acl/acl_rt.h"
#include "aclnn/acl_meta.h"
#include "session.h"

namespace acl_strict {

using PhaseTwoFunction = aclnnStatus(void* workspace, uint64_t workspace_bytes, aclOpExecutor* executor,
                                     aclrtStream stream);

using SetAddressFunction = aclnnStatus(aclOpExecutor* executor, size_t index, aclTensor* tensor, void* address);

// A tensor that phase 1 was given.
struct Operand {
  const aclTensor* tensor;
  bool is_output;
};

// Those of a list that are not null.
[[nodiscard]] std::vector<const aclTensor*> TensorsOf(const aclTensorList* list);

// The thread calls something else than what has to come directly after a phase 1.
void ForgetPlanned() noexcept;

void NoteExecutor(aclOpExecutor* executor, uint64_t workspace_bytes, const std::vector<Operand>& operands);

template <typename Argument>
void AddOperand([[maybe_unused]] std::vector<Operand>& operands, [[maybe_unused]] Argument argument) {
  if constexpr (std::is_same_v<Argument, aclTensor*> || std::is_same_v<Argument, const aclTensor*>) {
    if (argument != nullptr) operands.push_back({argument, std::is_same_v<Argument, aclTensor*>});
  } else if constexpr (std::is_same_v<Argument, const aclTensorList*>) {
    for (const aclTensor* const tensor : TensorsOf(argument)) operands.push_back({tensor, false});
  }
}

template <typename... Arguments>
aclnnStatus PhaseOne(aclnnStatus (*real)(Arguments...), Arguments... arguments) {
  CheckNoDoubleDestroy();
  const aclnnStatus status = real(arguments...);
  if (status != OK) return status;
  std::vector<Operand> operands;
  (AddOperand(operands, arguments), ...);
  // Headers that CANN generates declare their output const.
  const auto is_output = [](const Operand& operand) { return operand.is_output; };
  if (std::none_of(operands.begin(), operands.end(), is_output) && !operands.empty()) operands.back().is_output = true;
  const std::tuple<Arguments...> all{arguments...};
  NoteExecutor(*std::get<sizeof...(Arguments) - 1>(all), *std::get<sizeof...(Arguments) - 2>(all), operands);
  return status;
}

template <typename Object>
aclnnStatus DestroyObject(aclnnStatus (*destroy)(Object*), Object* object) {
  const bool is_known = object != nullptr && TheSession().objects.Retire(object, ObjectLedger::End::kDestroyed,
                                                                         [=] { (void)destroy(object); });
  return is_known ? OK : destroy(object);
}

aclnnStatus SetAddress(SetAddressFunction* real, aclOpExecutor* executor, size_t index, aclTensor* tensor,
                       void* address);

aclnnStatus PhaseTwo(PhaseTwoFunction* real, void* workspace, uint64_t workspace_bytes, aclOpExecutor* executor,
                     aclrtStream stream);

}  // namespace acl_strict
