// From sums of products to results: factors, what is added, and one rounding.
//
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "families/gemm/computation.h"
#include "families/gemm/micro_kernel.h"
#include "families/rows/floats.h"
#include "tensors/axes.h"
#include "tensors/elements.h"
#include "tensors/lanes.h"
#include "tensors/rows.h"

namespace acl_host {
namespace {

// The offset of one of a batch of matrices.
inline int64_t BatchOffset(const MatrixProduct& product, const Matrices& matrices, int64_t batch) {
  int64_t offset = 0;
  for (size_t axis = product.batches.size(); axis-- > 0;) {
    offset += batch % product.batches[axis] * matrices.batch_strides[axis];
    batch /= product.batches[axis];
  }
  return offset;
}

class Results {
 public:
  Results(const MatrixProduct& product, const KernelArguments& arguments) : product_(product), arguments_(arguments) {}

  // Makes results of the float32 sums of a part of a row.
  void Finish(const std::byte* sums, int64_t batch, int64_t row, int64_t column, int64_t count) const {
    const int64_t first = (batch * product_.rows + row) * product_.columns + column;
    VisitFloatType(product_.out, [&](auto out) {
      using Out = typename decltype(out)::Type;
      std::byte* const to = arguments_.outputs[0] + first * int64_t{sizeof(Out)};
      const FloatLanes alpha = Repeated(product_.alpha);
      if (!product_.added) {
        ForLanes(count, [&](int64_t i, auto lanes) {
          StoreLanes<Out>(alpha * LoadLanes<float>(sums, i, lanes), to, i, lanes);
        });
        return;
      }
      VisitFloatType(product_.added->type, [&](auto added) {
        const FloatLanes beta = Repeated(product_.beta);
        const int64_t stride = product_.added->column_stride;
        using Added = typename decltype(added)::Type;
        const std::byte* const from =
            arguments_.inputs[2] + (row * product_.added->row_stride + column * stride) * int64_t{sizeof(Added)};
        ForLanes(count, [&](int64_t i, auto lanes) {
          const FloatLanes more =
              stride == 1 ? LoadLanes<Added>(from, i, lanes) : Gather<Added>(from, i, stride, lanes);
          StoreLanes<Out>(beta * more + alpha * LoadLanes<float>(sums, i, lanes), to, i, lanes);
        });
      });
    });
  }

  // The results of products without depth.
  void FinishZeros() const {
    ForRows({0, ElementCount(product_.batches)}, {0, product_.rows}, [&](int64_t batch, int64_t row, Range columns) {
      const std::array<float, kStretch> zeros{};
      Finish(reinterpret_cast<const std::byte*>(zeros.data()), batch, row, columns.begin, columns.size());
    });
  }

  // The results of the sums of all parts of some matrices and rows, which are row-major.
  void AddParts(const std::byte* parts, Range batches, Range rows) const {
    ForRows(batches, rows, [&](int64_t batch, int64_t row, Range columns) {
      std::array<float, kStretch> sums;
      for (int64_t i = 0; i < columns.size(); ++i) {
        double sum = 0;
        for (int64_t part = 0; part < product_.parts(); ++part) {
          const int64_t matrix = (batch - batches.begin) * product_.parts() + part;
          const int64_t first = (matrix * rows.size() + row - rows.begin) * product_.columns + columns.begin;
          sum += double{FloatAt(parts, first + i)};
        }
        sums[static_cast<size_t>(i)] = static_cast<float>(sum);
      }
      Finish(reinterpret_cast<const std::byte*>(sums.data()), batch, row, columns.begin, columns.size());
    });
  }

 private:
  static constexpr int64_t kStretch = 512;

  template <typename T, typename Count>
  static FloatLanes Gather(const std::byte* from, int64_t first, int64_t stride, Count lanes) {
    FloatLanes gathered{};
    for (int64_t i = 0; i < int64_t{lanes}; ++i) gathered[i] = WidenElement<T>(from, (first + i) * stride);
    return gathered;
  }

  // Visits parts of all rows.
  template <typename Visit>
  void ForRows(Range batches, Range rows, const Visit& visit) const {
    const int64_t count = batches.size() * rows.size();
    arguments_.pool.ParallelFor(count, Grain(product_.columns * product_.parts()), [&](int64_t begin, int64_t end) {
      for (int64_t index = begin; index < end; ++index) {
        for (int64_t column = 0; column < product_.columns; column += kStretch) {
          visit(batches.begin + index / rows.size(), rows.begin + index % rows.size(),
                Range{column, std::min(product_.columns, column + kStretch)});
        }
      }
    });
  }

  const MatrixProduct& product_;
  const KernelArguments& arguments_;
};

}  // namespace
}  // namespace acl_host
