#include "argmax.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "values.h"

namespace aclgrad {
namespace {

constexpr int64_t kGroup = 16;

int64_t CeilDivide(int64_t value, int64_t divisor) { return (value + divisor - 1) / divisor; }

// The cells of a window along one axis: every dilation-th from the start, and of these the ones inside the plane.
struct Extent {
  int64_t start;
  int64_t begin;
  int64_t end;
  int64_t dilation;

  [[nodiscard]] bool Contains(int64_t cell) const {
    return begin <= cell && cell < end && (dilation == 1 || (cell - start) % dilation == 0);
  }
};

Extent WindowExtent(const Pooling& pooling, int axis, int64_t window) {
  const int64_t start = window * pooling.stride[axis] - pooling.padding[axis];
  const int64_t span = (pooling.kernel_size[axis] - 1) * pooling.dilation[axis] + 1;
  return {start, std::max<int64_t>(start, 0), std::min(start + span, pooling.input_size[axis]), pooling.dilation[axis]};
}

[[noreturn]] void Refuse(int64_t position, std::size_t index, const Extent& rows, const Extent& columns) {
  const auto range = [](const Extent& extent) {
    const std::string cells = "[" + std::to_string(extent.begin) + ", " + std::to_string(extent.end) + ")";
    return extent.dilation == 1 ? cells : cells + " with a dilation of " + std::to_string(extent.dilation);
  };
  throw InvalidValue("has " + std::to_string(position) + " at position " + std::to_string(index) +
                     ", outside its window of rows " + range(rows) + " and columns " + range(columns));
}

// Calls visit(plane, oh, ow, ih, iw, index) for each position, after checking it.
template <typename T, typename Visit>
void ForEach(const Argmax& argmax, Visit&& visit) {
  const Pooling& pooling = argmax.pooling;
  const auto width = static_cast<uint32_t>(pooling.input_size[1]);
  const auto cells = static_cast<uint64_t>(pooling.input_size[0] * pooling.input_size[1]);
  std::size_t index = 0;
  for (int64_t plane = 0; plane < argmax.batch * argmax.channels; ++plane) {
    for (int64_t oh = 0; oh < pooling.output_size[0]; ++oh) {
      const Extent rows = WindowExtent(pooling, 0, oh);
      for (int64_t ow = 0; ow < pooling.output_size[1]; ++ow, ++index) {
        const T position = Load<T>(argmax.data, index);
        const Extent columns = WindowExtent(pooling, 1, ow);
        if (static_cast<uint64_t>(position) >= cells) Refuse(position, index, rows, columns);
        // 32 bits: their division is several times faster than that of 64.
        const auto cell = static_cast<uint32_t>(position);
        const int64_t ih = cell / width;
        const int64_t iw = cell % width;
        if (!rows.Contains(ih) || !columns.Contains(iw)) Refuse(position, index, rows, columns);
        visit(plane, oh, ow, ih, iw, index);
      }
    }
  }
}

// The check of many windows at a time, in vectors of any processor: by signs, which need no comparison.

constexpr int64_t kMostWindows = 1024;
constexpr int64_t kMostRows = 4;

// Windows that follow one another: whole rows, or a part of one. For each, its first cell in the plane's columns,
// counted from the start of the first row, and the number of its columns in the plane.
struct Windows {
  int64_t count;
  uint32_t first[kMostWindows];
  uint32_t columns[kMostWindows];
};

void Fill(const Pooling& pooling, int64_t rows, int64_t begin, int64_t columns, Windows& windows) {
  windows.count = 0;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = begin; column < begin + columns; ++column, ++windows.count) {
      const Extent extent = WindowExtent(pooling, 1, column);
      windows.first[windows.count] =
          static_cast<uint32_t>(row * pooling.stride[0] * pooling.input_size[1] + extent.begin);
      windows.columns[windows.count] = static_cast<uint32_t>(std::max<int64_t>(extent.end - extent.begin, 0));
    }
  }
}

// Says whether a position lies outside the plane, or in none of the kRows rows of its window. The windows begin in the
// row that begins at cell `start`. What lies before a row wraps round, and so lies outside it too.
template <int64_t kRows, typename T>
bool AnyOutside(const Pooling& pooling, const void* positions, int64_t count, uint32_t start, const Windows& windows) {
  const auto width = static_cast<uint32_t>(pooling.input_size[1]);
  const uint32_t last = static_cast<uint32_t>(pooling.input_size[0]) * width - 1;
  uint32_t outside = 0;  // if its highest bit is set
  uint32_t high = 0;     // bits of positions that do not fit
  for (int64_t i = 0; i < count; ++i) {
    const T position = Load<T>(positions, static_cast<std::size_t>(i));
    const auto cell = static_cast<uint32_t>(position);
    const uint32_t place = cell - start - windows.first[i];
    uint32_t of_rows = UINT32_MAX;
    for (uint32_t row = 0; row < kRows; ++row) {
      const uint32_t column = place - row * width;
      of_rows &= column | (windows.columns[i] - 1 - column);
    }
    outside |= of_rows | cell | (last - cell);
    if constexpr (sizeof(T) > sizeof(cell)) high |= static_cast<uint32_t>(static_cast<uint64_t>(position) >> 32);
  }
  return high != 0 || static_cast<int32_t>(outside) < 0;
}

template <typename T>
bool AnyOutsideRows(const Pooling& pooling, const void* positions, int64_t count, uint32_t start,
                    const Windows& windows) {
  switch (pooling.kernel_size[0]) {
    case 1:
      return AnyOutside<1, T>(pooling, positions, count, start, windows);
    case 2:
      return AnyOutside<2, T>(pooling, positions, count, start, windows);
    case 3:
      return AnyOutside<3, T>(pooling, positions, count, start, windows);
    default:
      return AnyOutside<kMostRows, T>(pooling, positions, count, start, windows);
  }
}

// Windows of few rows, whose cells lie side by side. They may begin above the plane and end below it, and no distance
// of a cell from their rows, of which the padding adds some, may be too large for a sign.
bool IsQuick(const Pooling& pooling) {
  return pooling.kernel_size[0] <= kMostRows && pooling.dilation[0] == 1 && pooling.dilation[1] == 1 &&
         (pooling.input_size[0] + 2 * kMostRows) * pooling.input_size[1] <= INT32_MAX;
}

bool HasOutside(const Argmax& argmax) {
  const Pooling& pooling = argmax.pooling;
  const auto [height, width] = pooling.output_size;
  const auto any_outside = argmax.item_bytes == sizeof(int64_t) ? AnyOutsideRows<int64_t> : AnyOutsideRows<int32_t>;
  const int64_t rows = std::clamp<int64_t>(kMostWindows / std::max<int64_t>(width, 1), 1, std::max<int64_t>(height, 1));
  Windows windows;
  for (int64_t left = 0; left < width; left += kMostWindows) {
    const int64_t columns = std::min(kMostWindows, width - left);
    Fill(pooling, rows, left, columns, windows);
    for (int64_t plane = 0; plane < argmax.batch * argmax.channels; ++plane) {
      for (int64_t row = 0; row < height; row += rows) {
        const auto first = static_cast<std::size_t>((plane * height + row) * width + left) * argmax.item_bytes;
        const int64_t top = row * pooling.stride[0] - pooling.padding[0];
        const auto start = static_cast<uint32_t>(top * pooling.input_size[1]);
        const int64_t count = std::min(rows, height - row) * columns;
        if (any_outside(pooling, static_cast<const std::byte*>(argmax.data) + first, count, start, windows))
          return true;
      }
    }
  }
  return false;
}

template <typename Visit>
void ForEachOf(const Argmax& argmax, Visit&& visit) {
  if (argmax.item_bytes == sizeof(int64_t)) {
    ForEach<int64_t>(argmax, visit);
  } else {
    ForEach<int32_t>(argmax, visit);
  }
}

}  // namespace

std::size_t Argmax::count() const {
  return static_cast<std::size_t>(batch * channels * pooling.output_size[0] * pooling.output_size[1]);
}

void CheckArgmax(const Argmax& argmax) {
  // If one is outside, the walk finds which.
  if (IsQuick(argmax.pooling) && !HasOutside(argmax)) return;
  ForEachOf(argmax, [](int64_t, int64_t, int64_t, int64_t, int64_t, std::size_t) {});
}

void EncodeInt32Prefix(const Argmax& argmax, int32_t* prefix) {
  CheckArgmax(argmax);
  const std::size_t count = argmax.count();
  if (argmax.item_bytes == sizeof(int32_t)) {
    std::memcpy(prefix, argmax.data, count * sizeof(int32_t));
  } else {
    for (std::size_t i = 0; i < count; ++i) prefix[i] = static_cast<int32_t>(Load<int64_t>(argmax.data, i));
  }
}

std::size_t BitMaskWords(const Argmax& argmax) {
  const Pooling& pooling = argmax.pooling;
  const int64_t groups = CeilDivide(pooling.output_size[0] * pooling.output_size[1], kGroup) + 1;
  const int64_t window_cells = pooling.kernel_size[0] * pooling.kernel_size[1];
  return static_cast<std::size_t>(argmax.batch * CeilDivide(argmax.channels, kGroup) * window_cells * groups * kGroup);
}

void EncodeBitMask(const Argmax& argmax, uint16_t* words) {
  const Pooling& pooling = argmax.pooling;
  const int64_t row_words = (CeilDivide(pooling.output_size[0] * pooling.output_size[1], kGroup) + 1) * kGroup;
  const int64_t window_cells = pooling.kernel_size[0] * pooling.kernel_size[1];
  const int64_t channel_groups = CeilDivide(argmax.channels, kGroup);
  ForEachOf(argmax, [&](int64_t plane, int64_t oh, int64_t ow, int64_t ih, int64_t iw, std::size_t) {
    const int64_t batch = plane / argmax.channels;
    const int64_t channel = plane % argmax.channels;
    const int64_t kh = ih - (oh * pooling.stride[0] - pooling.padding[0]);
    const int64_t kw = iw - (ow * pooling.stride[1] - pooling.padding[1]);
    const int64_t k = kh * pooling.kernel_size[1] + kw;
    const int64_t row = (batch * channel_groups + channel / kGroup) * window_cells + k;
    words[row * row_words + oh * pooling.output_size[1] + ow] |= static_cast<uint16_t>(1U << (channel % kGroup));
  });
}

}  // namespace aclgrad
