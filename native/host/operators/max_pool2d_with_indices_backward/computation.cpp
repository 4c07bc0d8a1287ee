#include "computation.h"

#include "families/max_pool/argmax.h"
#include "families/max_pool/planes.h"
#include "tensors/elements.h"

namespace acl_host {

template <>
void MaxPool2dWithIndicesBackward<VECTOR_LEVEL>::Run(const MaxPool& pool, aclDataType type, aclDataType index_type,
                                                     int64_t slots, const KernelArguments& arguments) {
  VisitFloatType(type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    index_type == ACL_INT32 ? MakeGradient<T, ArgmaxLayout<int32_t>>(pool, slots, arguments)
                            : MakeGradient<T, ArgmaxLayout<int64_t>>(pool, slots, arguments);
  });
}

}  // namespace acl_host
