#include "tensors/strided_copy.h"

#include <utility>

#include "tensors/elements.h"

namespace acl_host {
namespace {

// Calls row(index, offset) for rows [begin, end), where offset is the view's offset of the row's first element.
template <typename Row>
void ForRows(const aclTensor& tensor, int64_t begin, int64_t end, const Row& row) {
  const size_t axes = tensor.view_dims.size() - 1;
  Dims position(axes);
  int64_t offset = tensor.offset;
  int64_t rest = begin;
  for (size_t axis = axes; axis-- > 0;) {
    position[axis] = rest % tensor.view_dims[axis];
    rest /= tensor.view_dims[axis];
    offset += position[axis] * tensor.strides[axis];
  }
  for (int64_t index = begin; index < end; ++index) {
    row(index, offset);
    for (size_t axis = axes; axis-- > 0;) {
      offset += tensor.strides[axis];
      if (++position[axis] < tensor.view_dims[axis]) break;
      offset -= tensor.view_dims[axis] * tensor.strides[axis];
      position[axis] = 0;
    }
  }
}

template <typename Element, bool kToView>
void CopyRows(ThreadPool& pool, const aclTensor& tensor, std::byte* view, std::byte* contiguous) {
  const int64_t columns = tensor.view_dims.back();
  const int64_t stride = tensor.strides.back();
  const int64_t rows = ElementCount(tensor.view_dims) / columns;
  const auto copy_row = [=](int64_t row, int64_t offset) {
    const int64_t first = row * columns;
    for (int64_t column = 0; column < columns; ++column) {
      const int64_t at = offset + column * stride;
      if constexpr (kToView) {
        StoreElement(view, at, LoadElement<Element>(contiguous, first + column));
      } else {
        StoreElement(contiguous, first + column, LoadElement<Element>(view, at));
      }
    }
  };
  pool.ParallelFor(rows, Grain(columns), [&](int64_t begin, int64_t end) { ForRows(tensor, begin, end, copy_row); });
}

template <bool kToView>
void Copy(ThreadPool& pool, aclTensor tensor, void* storage, std::byte* contiguous) {
  auto* const view = static_cast<std::byte*>(storage);
  if (tensor.empty()) return;
  if (tensor.view_dims.empty()) {
    tensor.view_dims = {1};
    tensor.strides = {1};
  }
  VisitElementSize(tensor.data_type,
                   [&](auto tag) { CopyRows<typename decltype(tag)::Type, kToView>(pool, tensor, view, contiguous); });
}

}  // namespace

// One loop serves both directions; it only reads the side that is const here.
void CopyFromView(ThreadPool& pool, const aclTensor& tensor, const void* storage, std::byte* contiguous) {
  Copy<false>(pool, tensor, const_cast<void*>(storage), contiguous);
}

void CopyToView(ThreadPool& pool, const std::byte* contiguous, const aclTensor& tensor, void* storage) {
  Copy<true>(pool, tensor, storage, const_cast<std::byte*>(contiguous));
}

}  // namespace acl_host
