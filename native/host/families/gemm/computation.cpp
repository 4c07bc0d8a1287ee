#include "families/gemm/computation.h"

#include "tensors/elements.h"

namespace acl_host {
namespace {

float ReadElement(const Matrices& matrices, const std::byte* from, int64_t offset) {
  float value = 0;
  VisitFloatType(matrices.type, [&](auto tag) { value = LoadWide<typename decltype(tag)::Type>(from, offset); });
  return value;
}

int64_t OffsetOf(const MatrixProduct& product, const Matrices& matrices, int64_t batch) {
  int64_t offset = 0;
  for (size_t axis = product.batches.size(); axis-- > 0;) {
    offset += batch % product.batches[axis] * matrices.batch_strides[axis];
    batch /= product.batches[axis];
  }
  return offset;
}

float MakeElement(const MatrixProduct& product, const KernelArguments& arguments, int64_t batch, int64_t row,
                  int64_t column) {
  const auto& [left, right] = std::pair(product.left, product.right);
  const int64_t from_left = OffsetOf(product, left, batch) + row * left.row_stride;
  const int64_t from_right = OffsetOf(product, right, batch) + column * right.column_stride;
  double sum = 0;
  for (int64_t k = 0; k < product.depth; ++k) {
    sum += double{ReadElement(left, arguments.inputs[0], from_left + k * left.column_stride)} *
           double{ReadElement(right, arguments.inputs[1], from_right + k * right.row_stride)};
  }
  float value = product.alpha * static_cast<float>(sum);
  if (product.added) {
    const int64_t at = OffsetOf(product, *product.added, batch) + row * product.added->row_stride +
                       column * product.added->column_stride;
    value += product.beta * ReadElement(*product.added, arguments.inputs[2], at);
  }
  return value;
}

}  // namespace

template <>
void Gemm<VECTOR_LEVEL>::Run(const MatrixProduct& product, const KernelArguments& arguments) {
  const int64_t cells = product.rows * product.columns;
  arguments.pool.ParallelFor(ElementCount(product.batches) * cells, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float value = MakeElement(product, arguments, i / cells, i % cells / product.columns, i % product.columns);
      VisitFloatType(product.out,
                     [&](auto tag) { StoreRounded<typename decltype(tag)::Type>(arguments.outputs[0], i, value); });
    }
  });
}

}  // namespace acl_host
