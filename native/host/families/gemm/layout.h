// The matrices that tensors consist of.
#pragma once

#include "families/gemm/computation.h"
#include "tensors/tensor.h"

namespace acl_host {

// The product of two tensors with at least two axes, whose batch axes are broadcast; out has the result's shape. Batch
// axes that can be walked through as one are one, or more rows of the left matrix.
[[nodiscard]] MatrixProduct ProductOf(const aclTensor& left, const aclTensor& right, const aclTensor& out);

// A vector as a matrix of one row, or of one column.
[[nodiscard]] aclTensor AsRow(const aclTensor& tensor);
[[nodiscard]] aclTensor AsColumn(const aclTensor& tensor);

// A tensor that is added to a product of two matrices, broadcast to its shape.
[[nodiscard]] Matrices AddedTo(const MatrixProduct& product, const aclTensor& tensor);

// The product of the transposed matrices in the other order, which is the transposed product.
[[nodiscard]] MatrixProduct Transposed(const MatrixProduct& product);

}  // namespace acl_host
