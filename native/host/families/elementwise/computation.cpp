#include "families/elementwise/computation.h"

#include <type_traits>
#include <utility>

#include "families/elementwise/formulas.h"
#include "families/elementwise/mapping.h"
#include "tensors/elements.h"

namespace acl_host {

template <>
void ElementwiseBackward<VECTOR_LEVEL>::Run(const Elementwise& work, Function function, const Parameters& parameters,
                                            const KernelArguments& arguments) {
  const auto make = [&](auto tag, aclDataType type) {
    using T = typename decltype(tag)::Type;
    VisitGradient<T>(function, parameters, [&](const auto& gradient) {
      constexpr size_t kInputs = kInputsOf<std::decay_t<decltype(gradient)>, T>;
      if constexpr (kInputs > 0) MapElements<T>(gradient, work, arguments, type, std::make_index_sequence<kInputs>());
    });
  };
  if (work.is_alike) {
    VisitNumberType(work.result, [&](auto tag) { make(tag, work.result); });
  } else {
    VisitFloatOrComplexType(work.computed, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (std::is_same_v<T, Wide<T>>) make(tag, work.computed);
    });
  }
}

}  // namespace acl_host
