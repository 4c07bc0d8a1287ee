// The checks that max pooling and its gradient share, and how large a mask is.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "families/max_pool/computation.h"
#include "plan/checks.h"

namespace acl_host {

inline constexpr Products kWithIndices = {Product::k910B, Product::k910_93, Product::k950};

// Returns the pooling's windows; the sizes of input and output are set later.
[[nodiscard]] MaxPool CheckPooling(const IntArrayArgument& kernel_size, const IntArrayArgument& stride,
                                   const IntArrayArgument& padding, const IntArrayArgument& dilation,
                                   bool takes_dilation);

// Sets the sizes, and returns the dims of the pooled tensor. Fails if there are no windows.
[[nodiscard]] Dims CheckSizes(const Argument& self, bool ceil_mode, MaxPool& pool);

// Which of the two layouts a mask has: INT32 positions, or the mask of UINT16 words.
[[nodiscard]] bool HasPositions(Product product, const MaxPool& pool);

[[nodiscard]] inline int64_t PositionsOf(const MaxPool& pool) { return pool.output.height * pool.output.width; }

// INT64_MAX, which is more than any buffer has, if the product exceeds 63 bits.
[[nodiscard]] int64_t SaturatedProduct(std::initializer_list<int64_t> factors);

// The bytes of all positions, and of all words.
[[nodiscard]] int64_t PositionBytes(const MaxPool& pool);
[[nodiscard]] int64_t WordBytes(const MaxPool& pool);

// Bytes from the first one of a mask's storage on, which a device addresses whatever the view is. Fails if there are
// fewer.
[[nodiscard]] aclTensor BytesOf(const aclTensor& indices, int64_t bytes);
void CheckBytes(const aclTensor& indices, int64_t bytes, int64_t needed_bytes);

}  // namespace acl_host
