// The typed two-phase launch of aclnn operators: one row for each operator that native/include/aclnnop declares, made
// from the functions' types.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "aclnn/aclnn_base.h"
#include "arguments.h"
#include "shared_libraries.h"

namespace aclgrad {

// One operator, ready to be planned (phase 1) and launched (phase 2); launch is null if no library has both phases.
struct Operator {
  std::function<aclnnStatus(ArgumentReader&)> plan;
  aclnnStatus (*launch)(void* workspace, uint64_t workspace_size, aclOpExecutor* executor, aclrtStream stream);
};

// Operators by the name of their phase 2, for example aclnnAdaptiveAvgPool2dBackward.
using OperatorTable = std::map<std::string, Operator>;

[[nodiscard]] OperatorTable BindOperators(SharedLibraries& libraries);

// What the runtime also runs by itself, for inputs that a kernel cannot read as they lie, or would write.
inline constexpr const char* kCopyOperator = "aclnnInplaceCopy";

// The names of all rows, in alphabetical order.
[[nodiscard]] std::vector<std::string> OperatorSymbols();

}  // namespace aclgrad
