#include "families/max_pool/computation.h"

#include "families/max_pool/argmax.h"
#include "families/max_pool/mask.h"
#include "families/max_pool/planes.h"
#include "tensors/elements.h"

namespace acl_host {

template <>
void MaxPoolBackward<VECTOR_LEVEL>::Run(const MaxPool& pool, aclDataType type, int64_t slots,
                                        const KernelArguments& arguments) {
  VisitFloatType(type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const bool has_mask = pool.index_type == ACL_UINT16;
    (has_mask ? MakeGradient<T, MaskLayout> : MakeGradient<T, ArgmaxLayout>)(pool, slots, arguments);
  });
}

}  // namespace acl_host
