#include "operators.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "operator_table.h"

namespace aclgrad {
namespace {

// Reads one argument for each parameter of a phase 1 function and calls it.
template <typename... Parameters>
std::function<aclnnStatus(ArgumentReader&)> Planner(aclnnStatus (*phase1)(Parameters...)) {
  return [phase1](ArgumentReader& reader) {
    // Braces fix the order of evaluation: left to right, in the order of the parameters.
    const std::tuple<Parameters...> arguments{reader.Next<Parameters>()...};
    reader.ExpectEnd();
    return std::apply(phase1, arguments);
  };
}

// The function is a template parameter, so that the compiler's message names it if a parameter's type has no argument.
template <auto* declared_phase1>
void AddRow(OperatorTable& table, SharedLibraries& libraries, const std::string& symbol) {
  decltype(declared_phase1) phase1 = nullptr;
  Operator row{};
  libraries.BindBoth(symbol + "GetWorkspaceSize", phase1, symbol, row.launch);
  row.plan = Planner(phase1);
  table.emplace(symbol, std::move(row));
}

}  // namespace

OperatorTable BindOperators(SharedLibraries& libraries) {
  OperatorTable table;
#define ROW(symbol) AddRow<symbol##GetWorkspaceSize>(table, libraries, #symbol);
  ACLNN_OPERATORS(ROW)
#undef ROW
  return table;
}

std::vector<std::string> OperatorSymbols() {
#define SYMBOL(symbol) #symbol,
  return {ACLNN_OPERATORS(SYMBOL)};
#undef SYMBOL
}

}  // namespace aclgrad
