#include "operators.h"

#include <tuple>
#include <utility>

#include "aclnnop/aclnn_adaptive_avg_pool2d_backward.h"

namespace aclgrad {
namespace {

// Reads one argument for each parameter of a phase 1 function and calls it.
template <typename... Parameters>
std::function<aclnnStatus(ArgumentReader&)> Planner(aclnnStatus (*phase1)(Parameters...)) {
  return [phase1](ArgumentReader& reader) {
    // Braces fix the order of evaluation: left to right, as the parameters stand.
    const std::tuple<Parameters...> arguments{reader.Next<Parameters>()...};
    reader.ExpectEnd();
    return std::apply(phase1, arguments);
  };
}

template <typename Phase1>
void AddRow(OperatorTable& table, SharedLibraries& libraries, const char* symbol) {
  Phase1* phase1 = nullptr;
  libraries.Bind((std::string(symbol) + "GetWorkspaceSize").c_str(), phase1);
  Operator row{};
  libraries.Bind(symbol, row.launch);
  row.plan = Planner(phase1);
  table.emplace(symbol, std::move(row));
}

}  // namespace

OperatorTable BindOperators(SharedLibraries& libraries) {
  OperatorTable table;
  AddRow<decltype(aclnnAdaptiveAvgPool2dBackwardGetWorkspaceSize)>(table, libraries, "aclnnAdaptiveAvgPool2dBackward");
  return table;
}

}  // namespace aclgrad
