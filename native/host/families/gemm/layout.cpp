#include "families/gemm/layout.h"

#include <algorithm>
#include <utility>

namespace acl_host {
namespace {

// Batch axes that are walked through as one.
struct BatchAxis {
  int64_t size;
  int64_t left_stride;
  int64_t right_stride;
};

Matrices MatricesOf(const aclTensor& tensor) {
  const size_t axes = tensor.strides.size();
  return {tensor.data_type, tensor.strides[axes - 2], tensor.strides[axes - 1], {}};
}

std::vector<BatchAxis> BatchAxesOf(const aclTensor& left, const aclTensor& right, const Dims& batches) {
  const auto strides_of = [&](const aclTensor& tensor) {
    aclTensor leading = tensor;
    leading.view_dims.resize(tensor.view_dims.size() - 2);
    leading.strides.resize(leading.view_dims.size());
    return Broadcast(leading, batches).strides;
  };
  const Dims left_strides = strides_of(left);
  const Dims right_strides = strides_of(right);
  std::vector<BatchAxis> axes;
  for (size_t axis = 0; axis < batches.size(); ++axis) {
    const BatchAxis next{batches[axis], left_strides[axis], right_strides[axis]};
    if (next.size == 1) continue;
    const bool follows = !axes.empty() && axes.back().left_stride == next.left_stride * next.size &&
                         axes.back().right_stride == next.right_stride * next.size;
    if (follows) {
      axes.back() = {axes.back().size * next.size, next.left_stride, next.right_stride};
    } else {
      axes.push_back(next);
    }
  }
  return axes;
}

}  // namespace

MatrixProduct ProductOf(const aclTensor& left, const aclTensor& right, const aclTensor& out) {
  const Dims& left_dims = left.view_dims;
  MatrixProduct product{{},
                        left_dims[left_dims.size() - 2],
                        right.view_dims.back(),
                        left_dims.back(),
                        MatricesOf(left),
                        MatricesOf(right),
                        {},
                        out.data_type,
                        PartDepthOf(left_dims[left_dims.size() - 2], right.view_dims.back(), left_dims.back())};
  const Dims left_batches(left_dims.begin(), left_dims.end() - 2);
  const Dims right_batches(right.view_dims.begin(), right.view_dims.end() - 2);
  std::vector<BatchAxis> axes = BatchAxesOf(left, right, BroadcastDims(left_batches, right_batches).value());
  if (!axes.empty() && axes.back().right_stride == 0 &&
      (product.rows == 1 || axes.back().left_stride == product.rows * product.left.row_stride)) {
    if (product.rows == 1) product.left.row_stride = axes.back().left_stride;
    product.rows *= axes.back().size;
    axes.pop_back();
  }
  for (const BatchAxis& axis : axes) {
    product.batches.push_back(axis.size);
    product.left.batch_strides.push_back(axis.left_stride);
    product.right.batch_strides.push_back(axis.right_stride);
  }
  return product;
}

aclTensor AsRow(const aclTensor& tensor) {
  aclTensor row = tensor;
  row.view_dims.insert(row.view_dims.begin(), 1);
  row.strides.insert(row.strides.begin(), 0);
  return row;
}

aclTensor AsColumn(const aclTensor& tensor) {
  aclTensor column = tensor;
  column.view_dims.push_back(1);
  column.strides.push_back(0);
  return column;
}

Matrices AddedTo(const MatrixProduct& product, const aclTensor& tensor) {
  return MatricesOf(Broadcast(tensor, {product.rows, product.columns}));
}

MatrixProduct Transposed(const MatrixProduct& product) {
  MatrixProduct transposed = product;
  std::swap(transposed.rows, transposed.columns);
  std::swap(transposed.left, transposed.right);
  std::swap(transposed.left.row_stride, transposed.left.column_stride);
  std::swap(transposed.right.row_stride, transposed.right.column_stride);
  if (transposed.added) std::swap(transposed.added->row_stride, transposed.added->column_stride);
  return transposed;
}

}  // namespace acl_host
