#include "operators.h"

#include <tuple>
#include <utility>

#include "aclnnop/aclnn_adaptive_avg_pool2d_backward.h"
#include "aclnnop/aclnn_max_pool2d_with_indices_backward.h"
#include "aclnnop/aclnn_max_unpool3d_backward.h"
#include "aclnnop/aclnn_pad2d_backward.h"
#include "aclnnop/aclnn_roi_align_v2_backward.h"

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
  AddRow<decltype(aclnnMaxUnpool3dBackwardGetWorkspaceSize)>(table, libraries, "aclnnMaxUnpool3dBackward");
  AddRow<decltype(aclnnReplicationPad2dBackwardGetWorkspaceSize)>(table, libraries, "aclnnReplicationPad2dBackward");
  AddRow<decltype(aclnnMaxPool2dWithMaskBackwardGetWorkspaceSize)>(table, libraries, "aclnnMaxPool2dWithMaskBackward");
  AddRow<decltype(aclnnRoiAlignV2BackwardGetWorkspaceSize)>(table, libraries, "aclnnRoiAlignV2Backward");
  return table;
}

}  // namespace aclgrad
