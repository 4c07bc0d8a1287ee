#include "families/rows/fills.h"

#include <cstddef>
#include <cstdint>

#include "tensors/elements.h"

namespace acl_host {

Plan FillsOf(const std::vector<Fill>& fills) {
  struct Filled {
    aclDataType type;
    int64_t count;
    float value;
  };
  Plan plan;
  std::vector<Filled> filled;
  for (const auto& [output, value] : fills) {
    if (output.tensor.empty()) continue;
    CheckAddressable(output);
    plan.AddOutput(output.tensor);
    filled.push_back({output.tensor.data_type, ElementCount(output.tensor.view_dims), value});
  }
  if (filled.empty()) return plan;
  plan.PromiseTimeOfBytes();
  plan.SetCompute([filled](const KernelArguments& arguments) {
    for (size_t i = 0; i < filled.size(); ++i) {
      VisitFloatType(filled[i].type, [&](auto tag) {
        using T = typename decltype(tag)::Type;
        for (int64_t at = 0; at < filled[i].count; ++at) StoreRounded<T>(arguments.outputs[i], at, filled[i].value);
      });
    }
  });
  return plan;
}

}  // namespace acl_host
