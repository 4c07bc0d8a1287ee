// What both passes share: the rows and panels that tiles are made of, and the scores of a row.
//
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "families/attention/computation.h"
#include "families/gemm/computation.h"
#include "families/gemm/micro_kernel.h"
#include "families/gemm/packing.h"
#include "tensors/axes.h"
#include "tensors/lanes.h"
#include "tensors/rows.h"

namespace acl_host {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);
constexpr auto kRows = static_cast<int64_t>(kTileRows);
// Between the rows of a tile: no multiple of a page, so that its columns do not meet in the cache.
constexpr int64_t kTilePitch = kBlockKeys + 16;
// Of a score that is masked out, as devices have it.
constexpr float kMasked = -3.40282347e38F;

constexpr int64_t WidthOf(int64_t columns) { return (columns + kFloatLanes - 1) / kFloatLanes * kFloatLanes; }
inline const std::byte* BytesOf(const float* floats) { return reinterpret_cast<const std::byte*>(floats); }
inline std::byte* BytesOf(float* floats) { return reinterpret_cast<std::byte*>(floats); }

// A head of a batch: of the query, or of the key.
struct Head {
  int64_t batch;
  int64_t head;
};

template <typename T>
const std::byte* RowAt(const std::byte* first, const HeadStrides& strides, Head head, int64_t row) {
  return first + (head.batch * strides.batch + head.head * strides.head + row * strides.row) * int64_t{sizeof(T)};
}
template <typename T>
std::byte* RowAt(std::byte* first, const HeadStrides& strides, Head head, int64_t row) {
  return first + (head.batch * strides.batch + head.head * strides.head + row * strides.row) * int64_t{sizeof(T)};
}

// Some rows of a head as they are, one behind the other.
template <typename T>
void CopyRows(const std::byte* from, int64_t row_stride, int64_t rows, int64_t depth, float* to) {
  for (int64_t row = 0; row < rows; ++row)
    WidenRow<T>(from + row * row_stride * int64_t{sizeof(T)}, to + row * depth, depth);
}

// Panels of the right matrix whose rows they are, so that products are added up along the rows.
template <typename T>
void PackRows(const std::byte* from, int64_t row_stride, int64_t rows, int64_t depth, float* to) {
  const MatrixLines<T> lines(from, 1, row_stride);
  for (int64_t column = 0; column < depth; column += kTileColumns) {
    const int64_t columns = std::min(kTileColumns, depth - column);
    lines.Pack(column, columns, 0, rows, WidthOf(columns), to + column * rows);
  }
}

// The same of the matrix whose columns they are, so that products are added up along what they consist of.
template <typename T>
void PackColumns(const std::byte* from, int64_t row_stride, int64_t rows, int64_t depth, float* to) {
  const MatrixLines<T> lines(from, row_stride, 1);
  for (int64_t row = 0; row < rows; row += kTileColumns) {
    const int64_t some = std::min(kTileColumns, rows - row);
    lines.Pack(row, some, 0, depth, WidthOf(some), to + row * depth);
  }
}

// Sums of products in memory, so many bytes from row to row.
struct Sums {
  std::byte* first;
  int64_t row_bytes;
  bool is_first;
};

// Adds the products of a left matrix, as it is, and panels.
template <LeftForm kForm>
void AddProducts(int64_t rows, int64_t columns, int64_t depth, const float* left, int64_t pitch, const float* panels,
                 const Sums& to) {
  const int64_t row_pitch = kForm == LeftForm::kRows ? pitch : 1;
  const int64_t depth_pitch = kForm == LeftForm::kRows ? 1 : pitch;
  for (int64_t column = 0; column < columns; column += kTileColumns) {
    const int64_t some = std::min(kTileColumns, columns - column);
    const int64_t width = WidthOf(some);
    for (int64_t k = 0; k < depth; k += kDepthOfSum) {
      const float* const panel = panels + column * depth + k * width;
      for (int64_t row = 0; row < rows; row += kRows) {
        MultiplyInPlace<kForm>(
            std::min(kRows, rows - row), width / kFloatLanes, std::min(kDepthOfSum, depth - k),
            left + row * row_pitch + k * depth_pitch, pitch, panel,
            {to.first + row * to.row_bytes + column * kFloatBytes, to.row_bytes, some, to.is_first && k == 0});
      }
    }
  }
}

// Rows [first, first + count) of a head, or keys.
struct Block {
  int64_t first;
  int64_t count;

  [[nodiscard]] int64_t end() const { return first + count; }
};

inline Block BlockAt(int64_t number, int64_t size, int64_t all) {
  return {number * size, std::min(size, all - number * size)};
}

constexpr int64_t CeilOf(int64_t count, int64_t of) { return (count + of - 1) / of; }

// The scores of a row of a tile, made of the products of query and key.
template <typename T>
class ScoreRows {
 public:
  // `masked` has room for the keys of a block.
  ScoreRows(const Attention& attention, const KernelArguments& arguments, size_t first_optional, float* masked)
      : attention_(attention), masked_(masked) {
    if (attention.mask) mask_ = arguments.inputs[first_optional];
    if (attention.bias) bias_ = arguments.inputs[first_optional + (attention.mask ? 1 : 0)];
  }

  // Whether all scores of a tile are masked out, by the row's place alone.
  [[nodiscard]] bool AreMasked(Block rows, Block keys) const {
    return attention_.keys_of(rows.end() - 1) <= keys.first;
  }

  // Calls visit(first, lanes, scores) for all of the row's keys, in order.
  template <typename Visit>
  void ForKeys(Head head, int64_t row, Block keys, const float* products, const Visit& visit) {
    const int64_t seen = std::clamp<int64_t>(attention_.keys_of(row) - keys.first, 0, keys.count);
    const std::byte* const bias =
        bias_ == nullptr ? nullptr : RowAt<T>(bias_, *attention_.bias, head, row) + keys.first * int64_t{sizeof(T)};
    if (mask_ == nullptr && seen == keys.count) {
      if (bias == nullptr) {
        return ForLanes(keys.count,
                        [&](int64_t i, auto lanes) { visit(i, lanes, Load(products, i, lanes) * scale()); });
      }
      return ForLanes(keys.count, [&](int64_t i, auto lanes) { visit(i, lanes, Score(products, bias, i, lanes)); });
    }
    FindMasked(head, row, keys, seen);
    ForLanes(keys.count, [&](int64_t i, auto lanes) {
      const FloatLanes score = Score(products, bias, i, lanes);
      visit(i, lanes, Load(masked_, i, lanes) != 0.0F ? Filled(kMasked) : score);
    });
  }

 private:
  [[nodiscard]] float scale() const { return attention_.scale; }

  template <typename Count>
  static FloatLanes Load(const float* floats, int64_t first, Count lanes) {
    return LoadLanes<float>(BytesOf(floats), first, lanes);
  }

  template <typename Count>
  [[nodiscard]] FloatLanes Score(const float* products, const std::byte* bias, int64_t first, Count lanes) const {
    const FloatLanes product = Load(products, first, lanes);
    if (bias == nullptr) return product * scale();
    const FloatLanes added = LoadLanes<T>(bias, first, lanes);
    return attention_.is_bias_scaled ? (product + added) * scale() : product * scale() + added;
  }

  void FindMasked(Head head, int64_t row, Block keys, int64_t seen) {
    if (mask_ == nullptr) {
      std::fill_n(masked_, seen, 0.0F);
    } else {
      const std::byte* const cells = RowAt<uint8_t>(mask_, *attention_.mask, head, row) + keys.first;
      for (int64_t i = 0; i < seen; ++i) masked_[i] = cells[i] == std::byte{0} ? 0.0F : 1.0F;
    }
    std::fill(masked_ + seen, masked_ + keys.count, 1.0F);
  }

  const Attention& attention_;
  float* const masked_;
  const std::byte* mask_ = nullptr;
  const std::byte* bias_ = nullptr;
};

// Hands out parts of a slot.
class SlotParts {
 public:
  explicit SlotParts(std::byte* memory) : next_(memory) {}

  [[nodiscard]] float* Floats(int64_t count) {
    auto* const part = reinterpret_cast<float*>(next_);
    next_ += CeilOf(count * kFloatBytes, kAttentionAlignment) * kAttentionAlignment;
    return part;
  }
  [[nodiscard]] double* Doubles(int64_t count) { return reinterpret_cast<double*>(Floats(2 * count)); }

 private:
  std::byte* next_;
};

}  // namespace
}  // namespace acl_host
