#include "computation.h"

#include "families/max_pool/argmax.h"
#include "families/max_pool/planes.h"
#include "mask.h"
#include "tensors/elements.h"

namespace acl_host {

template <>
void MaxPool2dWithMaskBackward<VECTOR_LEVEL>::Run(const MaxPool& pool, MaskKind kind, aclDataType type, int64_t slots,
                                                  const KernelArguments& arguments) {
  VisitFloatType(type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    kind == MaskKind::kArgmax ? MakeGradient<T, ArgmaxLayout<int32_t>>(pool, slots, arguments)
                              : MakeGradient<T, MaskLayout>(pool, slots, arguments);
  });
}

}  // namespace acl_host
