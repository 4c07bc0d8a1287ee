#include "computation.h"

#include "families/max_pool/planes.h"
#include "mask.h"
#include "tensors/elements.h"

namespace acl_host {

template <>
void MaxPoolOfBits<VECTOR_LEVEL>::Run(const MaxPool& pool, aclDataType type, int64_t slots,
                                      const KernelArguments& arguments) {
  VisitFloatType(type,
                 [&](auto tag) { MakeGradient<typename decltype(tag)::Type, MaskLayout>(pool, slots, arguments); });
}

}  // namespace acl_host
