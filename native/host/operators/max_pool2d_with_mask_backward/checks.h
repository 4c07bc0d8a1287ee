// The checks of the arguments of aclnnMaxPool2dWithMaskBackward.
#pragma once

#include <cstdint>

#include "families/max_pool/checks.h"
#include "settings/product.h"
#include "tensors/tensor.h"

namespace acl_host {

// Checks in CANN's order and with CANN's codes.
[[nodiscard]] MaxPool CheckMaskedPool(const MaxPoolArguments& arguments);

// Which of the two layouts indices has: INT32 positions, or the mask of UINT16 words.
[[nodiscard]] bool UsesArgmax(Product product, const MaxPool& pool);

// Each channel has a bit of its own in a word of the mask.
constexpr int64_t kMaskChannels = 16;
[[nodiscard]] int64_t MaskChannelGroups(const MaxPool& pool);
[[nodiscard]] int64_t MaskWordsPerCell(const MaxPool& pool);

// The bytes that are read, as a tensor. Both throw if indices has fewer. CANN computes the shape that indices should
// have but ignores the result, so any shape with enough bytes is legal.
[[nodiscard]] aclTensor ArgmaxTensor(const aclTensor& indices, const MaxPool& pool);
[[nodiscard]] aclTensor MaskTensor(const aclTensor& indices, const MaxPool& pool);

}  // namespace acl_host
