#include "argmax.h"

#include <algorithm>
#include <string>

#include "invalid_value.h"
#include "load.h"

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
  ForEachOf(argmax, [](int64_t, int64_t, int64_t, int64_t, int64_t, std::size_t) {});
}

void EncodeInt32Prefix(const Argmax& argmax, int32_t* prefix) {
  const int64_t width = argmax.pooling.input_size[1];
  ForEachOf(argmax, [&](int64_t, int64_t, int64_t, int64_t ih, int64_t iw, std::size_t index) {
    prefix[index] = static_cast<int32_t>(ih * width + iw);
  });
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
