// Products of a vector and a matrix. They read the matrix once, in place. If the elements of a row of it are side by
// side, the sums have the order, and so the bits, of those of packed panels.
//
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "families/gemm/computation.h"
#include "families/gemm/micro_kernel.h"
#include "families/gemm/results.h"
#include "tensors/axes.h"
#include "tensors/elements.h"
#include "tensors/lanes.h"
#include "tensors/rows.h"

namespace acl_host {
namespace {

template <typename T>
class VectorProducts {
 public:
  VectorProducts(const MatrixProduct& product, const ProductBlocks& blocks, const KernelArguments& arguments)
      : product_(product), blocks_(blocks), arguments_(arguments), results_(product, arguments) {}

  void Run() const {
    const int64_t batches = ElementCount(product_.batches);
    for (int64_t batch = 0; batch < batches; batch += blocks_.part_matrices) {
      const Range some{batch, std::min(batches, batch + blocks_.part_matrices)};
      MakeSome(some);
      if (product_.parts() > 1) results_.AddParts(arguments_.scratch[1], some, {0, 1});
    }
  }

 private:
  using Totals = std::array<float, ProductBlocks::kVectorColumns>;

  static constexpr int64_t kBytes = sizeof(T);
  static constexpr int64_t kLongDepth = 1 << 20;
  // Elements of the vector at a time. A lane adds up at most kDepth products.
  static constexpr int64_t kStretch = 2048;
  static constexpr int64_t kVectorsAlong = 2;
  static_assert(kStretch / kVectorsAlong / kFloatLanes <= kDepthOfSum);
  static constexpr size_t kColumnsAlong = 4;
  static constexpr int64_t kRowsAcross = 4;

  void MakeSome(Range batches) const {
    const int64_t parts = product_.parts();
    const int64_t per_row = (product_.columns - 1) / blocks_.columns + 1;
    const int64_t grain = Grain(blocks_.columns * std::min(product_.part_depth, kLongDepth));
    arguments_.pool.ParallelFor(batches.size() * parts * per_row, grain, [&](int64_t begin, int64_t end) {
      Totals totals;
      for (int64_t index = begin; index < end; ++index) {
        const int64_t part = index / per_row;
        const int64_t batch = batches.begin + part / parts;
        const int64_t column = index % per_row * blocks_.columns;
        const Range columns{column, std::min(product_.columns, column + blocks_.columns)};
        const int64_t first = part % parts * product_.part_depth;
        Sum(batch, columns, {first, std::min(product_.depth, first + product_.part_depth)}, totals.data());
        if (parts > 1) {
          std::memcpy(arguments_.scratch[1] + (part * product_.columns + column) * int64_t{sizeof(float)},
                      totals.data(), static_cast<size_t>(columns.size()) * sizeof(float));
        } else {
          results_.Finish(reinterpret_cast<const std::byte*>(totals.data()), batch, 0, column, columns.size());
        }
      }
    });
  }

  void Sum(int64_t batch, Range columns, Range depth, float* totals) const {
    const std::byte* const vector = arguments_.inputs[0] + BatchOffset(product_, product_.left, batch) * kBytes;
    const std::byte* const matrix =
        arguments_.inputs[1] +
        (BatchOffset(product_, product_.right, batch) + columns.begin * product_.right.column_stride) * kBytes;
    std::fill_n(totals, columns.size(), 0.0F);
    std::array<float, kStretch> elements;
    const bool is_along = product_.right.row_stride == 1;
    const int64_t step = is_along ? kStretch : kDepthOfSum;
    for (int64_t k = depth.begin; k < depth.end; k += step) {
      const int64_t count = std::min(step, depth.end - k);
      Widen(vector + k * product_.left.column_stride * kBytes, count, elements.data());
      const std::byte* const from = matrix + k * product_.right.row_stride * kBytes;
      is_along ? AddAlong(from, elements.data(), count, columns.size(), totals)
               : AddAcross(from, elements.data(), count, columns.size(), totals);
    }
  }

  void Widen(const std::byte* from, int64_t count, float* to) const {
    const int64_t stride = product_.left.column_stride;
    if (stride == 1) return WidenRow<T>(from, to, count);
    for (int64_t i = 0; i < count; ++i) to[i] = WidenElement<T>(from, i * stride);
  }

  // The elements of a column of the matrix are side by side.
  void AddAlong(const std::byte* matrix, const float* vector, int64_t depth, int64_t columns, float* totals) const {
    const int64_t column_bytes = product_.right.column_stride * kBytes;
    int64_t column = 0;
    for (; column + static_cast<int64_t>(kColumnsAlong) <= columns; column += kColumnsAlong) {
      AddColumns<kColumnsAlong>(matrix + column * column_bytes, vector, depth, totals + column);
    }
    for (; column < columns; ++column) AddColumns<1>(matrix + column * column_bytes, vector, depth, totals + column);
  }

  template <size_t kColumns>
  void AddColumns(const std::byte* matrix, const float* vector, int64_t depth, float* totals) const {
    const int64_t column_bytes = product_.right.column_stride * kBytes;
    const auto* const elements = reinterpret_cast<const std::byte*>(vector);
    std::array<FloatLanes, kColumns> even{}, odd{};
    const auto add = [&](auto& sums, int64_t k, auto lanes) {
      const FloatLanes element = LoadLanes<float>(elements, k, lanes);
      for (size_t i = 0; i < kColumns; ++i) {
        const std::byte* const column = matrix + static_cast<int64_t>(i) * column_bytes;
        const FloatLanes sum = MultiplyAdd(element, LoadLanes<T>(column, k, lanes), sums[i]);
        sums[i] = sum;
      }
    };
    int64_t k = 0;
    for (; k + 2 * kFloatLanes <= depth; k += 2 * kFloatLanes) {
      add(even, k, AllLanes{});
      add(odd, k + kFloatLanes, AllLanes{});
    }
    if (k + kFloatLanes <= depth) {
      add(even, k, AllLanes{});
      k += kFloatLanes;
    }
    if (k < depth) add(odd, k, depth - k);
    for (size_t i = 0; i < kColumns; ++i) totals[i] += SumOfLanes(even[i] + odd[i]);
  }

  // The elements of a row of the matrix are side by side.
  void AddAcross(const std::byte* matrix, const float* vector, int64_t depth, int64_t columns, float* totals) const {
    const int64_t row_bytes = product_.right.row_stride * kBytes;
    alignas(64) std::array<float, ProductBlocks::kVectorColumns> sums;
    auto* const sum_bytes = reinterpret_cast<std::byte*>(sums.data());
    std::fill_n(sums.begin(), columns, 0.0F);
    const auto add = [&](auto rows, int64_t k) {
      const std::byte* const first = matrix + k * row_bytes;
      ForLanes(columns, [&](int64_t i, auto lanes) {
        FloatLanes sum = LoadLanes<float>(sum_bytes, i, lanes);
        for (int64_t row = 0; row < rows; ++row) {
          sum = MultiplyAdd(Repeated(vector[k + row]), LoadLanes<T>(first + row * row_bytes, i, lanes), sum);
        }
        StoreLanes<float>(sum, sum_bytes, i, lanes);
      });
    };
    int64_t k = 0;
    for (; k + kRowsAcross <= depth; k += kRowsAcross) add(std::integral_constant<int64_t, kRowsAcross>{}, k);
    for (; k < depth; ++k) add(std::integral_constant<int64_t, 1>{}, k);
    for (int64_t i = 0; i < columns; ++i) totals[i] += sums[static_cast<size_t>(i)];
  }

  const MatrixProduct& product_;
  const ProductBlocks& blocks_;
  const KernelArguments& arguments_;
  const Results results_;
};

}  // namespace
}  // namespace acl_host
