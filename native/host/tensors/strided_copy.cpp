#include "tensors/strided_copy.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "tensors/elements.h"

namespace acl_host {
namespace {

constexpr int64_t kTile = 32;

// Of views, that which is read and that which is written.
constexpr size_t kFrom = 0;
constexpr size_t kTo = 1;

// Planes with fewer elements along an axis have no full tiles.
constexpr int64_t kLeastOfPlane = 8;

template <typename Element>
void CopyRow(const std::byte* from, std::byte* to, int64_t count, const WalkedAxis<2>& row) {
  const auto [from_step, to_step] = row.steps;
  if (from_step == 1 && to_step == 1) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(Element));
  } else if (from_step == 0 && to_step == 1) {
    const auto element = LoadElement<Element>(from, 0);
    for (int64_t i = 0; i < count; ++i) StoreElement(to, i, element);
  } else if (to_step == 1) {
    for (int64_t i = 0; i < count; ++i) StoreElement(to, i, LoadElement<Element>(from, i * from_step));
  } else {
    for (int64_t i = 0; i < count; ++i) StoreElement(to, i * to_step, LoadElement<Element>(from, i * from_step));
  }
}

}  // namespace

StridedCopy::StridedCopy(const Dims& dims, const Dims& from, const Dims& to, aclDataType type)
    : walk_(dims, {from, to}), type_(type), units_(walk_.units()), unit_elements_(walk_.unit_elements()) {
  FindPlanes();
}

void StridedCopy::FindPlanes() {
  const WalkedAxis<2>& row = walk_.row();
  if (row.steps[kTo] != 1 || row.steps[kFrom] == 1 || row.size < kLeastOfPlane) return;
  const auto& axes = walk_.axes();
  for (size_t axis = 0; axis + 1 < axes.size(); ++axis) {
    if (axes[axis].steps[kFrom] != 1 || axes[axis].size < kLeastOfPlane) continue;
    planes_.across = axes[axis];
    planes_.tiles_across = (axes[axis].size - 1) / kTile + 1;
    planes_.tiles_along = (row.size - 1) / kTile + 1;
    units_ = walk_.rows() / planes_.across.size * planes_.tiles_across * planes_.tiles_along;
    unit_elements_ = std::min(kTile, planes_.across.size) * std::min(kTile, row.size);
    walk_ = walk_.WithNextToRows(axis);
    return;
  }
}

template <typename Element>
void StridedCopy::CopyRows(const std::byte* from, std::byte* to, int64_t begin, int64_t end) const {
  constexpr int64_t kBytes = sizeof(Element);
  walk_.ForUnits(begin, end, [&](const auto& places, int64_t count) {
    CopyRow<Element>(from + places[kFrom] * kBytes, to + places[kTo] * kBytes, count, walk_.row());
  });
}

// Each tile is read along the one axis and written along the other.
template <typename Element>
void StridedCopy::CopyTiles(const std::byte* from, std::byte* to, int64_t begin, int64_t end) const {
  constexpr int64_t kBytes = sizeof(Element);
  const WalkedAxis<2>& row = walk_.row();
  const int64_t parts = walk_.units() / walk_.rows();
  const int64_t tiles = planes_.tiles_across * planes_.tiles_along;
  std::array<std::array<Element, kTile>, kTile> tile;
  for (int64_t unit = begin; unit < end;) {
    const int64_t plane = unit / tiles;
    const int64_t last = std::min(end, (plane + 1) * tiles);
    const int64_t first_row = plane * planes_.across.size * parts;
    std::array<int64_t, 2> places{};
    walk_.ForUnits(first_row, first_row + 1, [&](const auto& of_plane, int64_t) { places = of_plane; });
    for (; unit < last; ++unit) {
      const int64_t across = unit % tiles / planes_.tiles_along * kTile;
      const int64_t along = unit % planes_.tiles_along * kTile;
      const int64_t height = std::min(kTile, planes_.across.size - across);
      const int64_t width = std::min(kTile, row.size - along);
      const std::byte* const read = from + (places[kFrom] + along * row.steps[kFrom] + across) * kBytes;
      std::byte* const written = to + (places[kTo] + across * planes_.across.steps[kTo] + along) * kBytes;
      for (int64_t i = 0; i < width; ++i) {
        std::memcpy(tile[static_cast<size_t>(i)].data(), read + i * row.steps[kFrom] * kBytes,
                    static_cast<size_t>(height * kBytes));
      }
      for (int64_t j = 0; j < height; ++j) {
        std::byte* const line = written + j * planes_.across.steps[kTo] * kBytes;
        for (int64_t i = 0; i < width; ++i) {
          StoreElement(line, i, tile[static_cast<size_t>(i)][static_cast<size_t>(j)]);
        }
      }
    }
  }
}

void StridedCopy::Run(const std::byte* from, std::byte* to, int64_t begin, int64_t end) const {
  VisitElementSize(type_, [&](auto tag) {
    using Element = typename decltype(tag)::Type;
    planes_.tiles_along > 0 ? CopyTiles<Element>(from, to, begin, end) : CopyRows<Element>(from, to, begin, end);
  });
}

void StridedCopy::Run(ThreadPool& pool, const std::byte* from, std::byte* to) const {
  pool.ParallelFor(units_, Grain(unit_elements_), [&](int64_t begin, int64_t end) { Run(from, to, begin, end); });
}

void CopyFromView(ThreadPool& pool, const aclTensor& tensor, const void* storage, std::byte* contiguous) {
  if (tensor.empty()) return;
  const int64_t offset = tensor.offset * static_cast<int64_t>(aclDataTypeSize(tensor.data_type));
  StridedCopy(tensor.view_dims, tensor.strides, ContiguousStrides(tensor.view_dims), tensor.data_type)
      .Run(pool, static_cast<const std::byte*>(storage) + offset, contiguous);
}

void CopyToView(ThreadPool& pool, const std::byte* contiguous, const aclTensor& tensor, void* storage) {
  if (tensor.empty()) return;
  const int64_t offset = tensor.offset * static_cast<int64_t>(aclDataTypeSize(tensor.data_type));
  StridedCopy(tensor.view_dims, ContiguousStrides(tensor.view_dims), tensor.strides, tensor.data_type)
      .Run(pool, contiguous, static_cast<std::byte*>(storage) + offset);
}

}  // namespace acl_host
