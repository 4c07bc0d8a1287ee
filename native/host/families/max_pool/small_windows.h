// The gradient of max pooling over windows of up to 3x3 cells, one or two columns apart: each cell compares itself with
// the choices of the windows over it, and adds the gradients of those that chose it. Every cell is written once, so
// there are no zeros to write first, and no position can lead outside the output.
//
// A lane of a vector is a window. With two columns from window to window, the even and the odd cells of a row are two
// vectors of sums, which are then interleaved. Sums are in float32, windows in row-major order, and are rounded once.
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "families/max_pool/computation.h"
#include "families/max_pool/windows.h"
#include "plan/plan.h"
#include "plan/scratch.h"
#include "plan/tiles.h"
#include "tensors/elements.h"
#include "tensors/lanes.h"

namespace acl_host {
namespace {

constexpr int64_t kMostSmallSide = 3;
constexpr int64_t kWindowsPerTile = 256;
// Of a row of windows. With fewer, the other way is quicker.
constexpr int64_t kLeastLanes = 16;

// Whether this is the quicker way: there are no cells between windows, and a row has windows enough for vectors.
inline bool HasSmallWindows(const MaxPool& pool) {
  const auto is_small = [](int64_t kernel, int64_t stride) { return stride <= kernel && kernel <= kMostSmallSide; };
  const int64_t lanes = (pool.input.width - 1) / pool.stride.width + 1;
  return is_small(pool.kernel.height, pool.stride.height) && is_small(pool.kernel.width, pool.stride.width) &&
         pool.stride.width <= 2 && lanes >= kLeastLanes && pool.input.height <= INT32_MAX / pool.input.width;
}

// Computes the rows of one thread. kWindows is how many windows of a row are over a cell, for each phase: the cells of
// a row have as many phases by turns as there are columns from window to window. kLater: the first window over a cell
// of the second phase is the one after that of the first.
template <typename T, int kLater, int... kWindows>
class SmallWindows {
 public:
  static constexpr int kStride = sizeof...(kWindows);

  SmallWindows(const MaxPool& pool, const KernelArguments& arguments)
      : pool_(pool),
        grad_output_(arguments.inputs[0]),
        indices_(arguments.inputs[1]),
        out_(arguments.outputs[0]),
        least_(FirstWindow()),
        choices_(kElements + kFloatLanes),
        grads_(kElements + kFloatLanes) {}

  void SetTile(const Tile& tile) {
    if (tile.left == left_ && tile.right == right_) return;
    left_ = tile.left;
    right_ = tile.right;
    columns_ = WindowsOver({left_, right_}, pool_.kernel.width, kStride, pool_.padding.width, pool_.output.width);
    const int64_t lanes = (right_ - left_ - 1) / kStride + 1;
    // Whole vectors, of which most loads then begin where a vector does.
    pitch_ = (lanes + kMostSmallSide + 2 * kFloatLanes - 2) / kFloatLanes * kFloatLanes;
    std::fill_n(choices_.data(), kElements + kFloatLanes, 0U);
  }

  // Makes the remaining rows of the tile.
  int64_t MakeRows(const Tile& tile, int64_t first_row, int64_t cell) {
    std::byte* out = out_ + static_cast<size_t>(cell) * sizeof(T);
    // The windows over the row, and those that are read.
    Range over = WindowsOver({first_row, first_row + 1}, pool_.kernel.height, pool_.stride.height, pool_.padding.height,
                             pool_.output.height);
    Range held{over.begin, over.begin};
    // Where the first window over the row ends, and where the next one begins.
    int64_t bottom = Top(pool_, over.begin) + pool_.kernel.height;
    int64_t top = Top(pool_, over.end);
    const int64_t stride = pool_.stride.height, last = pool_.output.height, pitch = pitch_;
    const size_t out_pitch = static_cast<size_t>(pool_.input.width) * sizeof(T);
    for (int64_t row = first_row; row < tile.bottom; ++row, out += out_pitch) {
      for (; over.begin < over.end && bottom <= row; bottom += stride) ++over.begin;
      for (; over.end < last && top <= row; top += stride) ++over.end;
      if (held.end < over.end) {
        held = {over.begin, std::min(over.begin + kElements / pitch, last)};
        for (int64_t window = held.begin; window < held.end; ++window) {
          Read(tile.plane * last + window, (window - held.begin) * pitch);
        }
      }
      MakeRow(over.end - over.begin, row, (over.begin - held.begin) * pitch, out);
    }
    return tile.bottom - first_row;
  }

 private:
  // 32 KB with the gradients.
  static constexpr int64_t kElements = 4096;

  // Reads the choices and gradients of a row of windows. A choice is a position and 1, or 0 for none.
  void Read(int64_t row, int64_t place) {
    const int64_t count = columns_.size();
    const int64_t first = row * pool_.output.width + columns_.begin;
    const int64_t to = place + columns_.begin - left_ / kStride - least_;
    const std::byte* const indices = indices_ + static_cast<size_t>(first) * aclDataTypeSize(pool_.index_type);
    if (pool_.index_type == ACL_INT32) {
      std::byte* const choices = reinterpret_cast<std::byte*>(choices_.data() + to);
      ForLanes(count, [&](int64_t i, auto lanes) {
        const auto positions = BitCast<WordLanes>(LoadLanes<float>(indices, i, lanes));
        StoreLanes<float>(BitCast<FloatLanes>(WordLanes{positions + 1U}), choices, i, AllLanes{});
      });
    } else {
      uint32_t* __restrict const choices = choices_.data() + to;
      for (int64_t i = 0; i < count; ++i) {
        const auto position = LoadElement<int64_t>(indices, i);
        const auto number = static_cast<uint32_t>(position);
        choices[i] = int64_t{number} == position ? number + 1U : 0U;
      }
    }
    const std::byte* const from = grad_output_ + static_cast<size_t>(first) * sizeof(T);
    std::byte* const grads = reinterpret_cast<std::byte*>(grads_.data() + to);
    // The lanes behind the row may choose a cell, but they have gradients of 0.
    ForLanes(count,
             [&](int64_t i, auto lanes) { StoreLanes<float>(LoadLanes<T>(from, i, lanes), grads, i, AllLanes{}); });
  }

  void MakeRow(int64_t rows, int64_t row, int64_t place, std::byte* out) const {
    switch (rows) {
      case 0:
        return Make<0>(row, place, out);
      case 1:
        return Make<1>(row, place, out);
      case 2:
        return Make<2>(row, place, out);
      default:
        return Make<kMostSmallSide>(row, place, out);
    }
  }

  // Makes a row of cells from the rows of windows over it, the first of which is at that place.
  template <int kRows>
  void Make(int64_t row, int64_t place, std::byte* __restrict out) const {
    const int64_t width = right_ - left_;
    // Read once: a store to `out` may change any member, as far as the compiler knows.
    const Held held{choices_.data() + place, grads_.data() + place, pitch_};
    auto cells = Steps(std::make_integer_sequence<uint32_t, uint32_t{kFloatLanes}>{}) +
                 static_cast<uint32_t>(row * pool_.input.width + left_ + 1);
    int64_t lane = 0;
    for (int64_t cell = 0; cell < width; cell += kStride * kFloatLanes, lane += kFloatLanes) {
      std::array<FloatLanes, kStride> sums;
      uint32_t phase = 0;
      ((sums[phase] = SumOf<kRows, kWindows>(cells + phase, held, lane + phase * kLater), ++phase), ...);
      if constexpr (kStride == 1) {
        Store(sums[0], out, cell, width);
      } else {
        constexpr auto kEach = std::make_integer_sequence<int, int{kFloatLanes}>{};
        Store(Interleave<0>(sums[0], sums[1], kEach), out, cell, width);
        Store(Interleave<1>(sums[0], sums[1], kEach), out, cell + kFloatLanes, width);
      }
      cells += kStride * uint32_t{kFloatLanes};
    }
  }

  // The first window over the cell of the first phase in lane 0, relative to the window of that number.
  [[nodiscard]] int64_t FirstWindow() const {
    // Above zero, so that the division rounds down.
    return (pool_.padding.width + kStride - pool_.kernel.width + kMostSmallSide * kStride) / kStride - kMostSmallSide;
  }

  // Rows of windows that were read.
  struct Held {
    const uint32_t* choices;
    const float* grads;
    int64_t pitch;
  };

  template <int kRows, int kColumns>
  [[nodiscard]] static FloatLanes SumOf(WordLanes cells, const Held& held, int64_t place) {
    FloatLanes sum{};
    for (int row = 0; row < kRows; ++row, place += held.pitch) {
      for (int column = 0; column < kColumns; ++column) {
        const auto choices =
            LoadSome<WordLanes>(reinterpret_cast<const std::byte*>(held.choices + place + column), AllLanes{});
        const auto grads =
            LoadSome<FloatLanes>(reinterpret_cast<const std::byte*>(held.grads + place + column), AllLanes{});
        sum += choices == cells ? grads : FloatLanes{};
      }
    }
    return sum;
  }

  template <uint32_t... kLanes>
  static WordLanes Steps(std::integer_sequence<uint32_t, kLanes...>) {
    return WordLanes{kLanes * kStride...};
  }

  // One half of the even and odd cells by turns.
  template <int kHalf, int... kLanes>
  static FloatLanes Interleave(FloatLanes even, FloatLanes odd, std::integer_sequence<int, kLanes...>) {
    constexpr int kCount = sizeof...(kLanes);
    return __builtin_shufflevector(even, odd, ((kHalf * kCount + kLanes) / 2 + kLanes % 2 * kCount)...);
  }

  static void Store(FloatLanes sums, std::byte* out, int64_t cell, int64_t width) {
    if (cell + kFloatLanes <= width) {
      StoreLanes<T>(sums, out, cell, AllLanes{});
    } else if (cell < width) {
      StoreLanes<T>(sums, out, cell, width - cell);
    }
  }

  const MaxPool& pool_;
  const std::byte* const grad_output_;
  const std::byte* const indices_;
  std::byte* const out_;
  const int64_t least_;  // FirstWindow, which is at the beginning of a row in memory
  const Scratch<uint32_t> choices_;
  const Scratch<float> grads_;
  int64_t left_ = 0;
  int64_t right_ = 0;
  Range columns_{0, 0};
  int64_t pitch_ = 0;  // elements from row to row
};

// gradOutput and indices -> the gradient.
template <typename T>
void MakeOfSmallWindows(const MaxPool& pool, const KernelArguments& arguments) {
  const auto make = [&](auto tag) {
    using Worker = typename decltype(tag)::Type;
    const Tiles tiles{pool.planes(), pool.input.height, pool.input.width, kWindowsPerTile * Worker::kStride};
    ForTiles(arguments.pool, tiles, WorkOf(pool, sizeof(T)), [&] { return Worker(pool, arguments); });
  };
  const bool padded = pool.padding.width > 0;
  switch (pool.stride.width * 4 + pool.kernel.width) {
    case 4 + 1:
      return make(TypeTag<SmallWindows<T, 0, 1>>{});
    case 4 + 2:
      return make(TypeTag<SmallWindows<T, 0, 2>>{});
    case 4 + 3:
      return make(TypeTag<SmallWindows<T, 0, 3>>{});
    case 8 + 2:
      return padded ? make(TypeTag<SmallWindows<T, 1, 1, 1>>{}) : make(TypeTag<SmallWindows<T, 0, 1, 1>>{});
    default:
      return padded ? make(TypeTag<SmallWindows<T, 0, 1, 2>>{}) : make(TypeTag<SmallWindows<T, 1, 2, 1>>{});
  }
}

}  // namespace
}  // namespace acl_host
