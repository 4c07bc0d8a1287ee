// Packs patches: rows are taps and channels of the source, columns are positions.
//
// In an unnamed namespace, because each vector level has its own.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "families/convolution/gather.h"
#include "families/gemm/micro_kernel.h"
#include "families/gemm/packing.h"

namespace acl_host {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);
constexpr auto kRows = static_cast<int64_t>(kTileRows);
// Products that are worth waking a thread for.
constexpr int64_t kGrainWork = int64_t{1} << 18;

constexpr int64_t CeilOf(int64_t count, int64_t of) { return (count + of - 1) / of; }
constexpr int64_t VectorsOf(int64_t columns) { return CeilOf(columns, kFloatLanes); }
inline float* FloatsAt(std::byte* memory) { return reinterpret_cast<float*>(memory); }

// Columns that follow one another: of a row of positions, or if their results are side by side, of an image.
struct Piece {
  int64_t column;  // after the first
  int64_t count;
  int64_t image;
  std::array<int64_t, kConvolvedAxes> position;
};

template <typename Visit>
void ForPieces(const Gather& gather, int64_t first, int64_t count, bool by_image, const Visit& visit) {
  const int64_t row = by_image ? gather.positions() : gather.axes[2].positions;
  const int64_t rows = by_image ? 1 : gather.axes[1].positions;
  const int64_t planes = by_image ? 1 : gather.axes[0].positions;
  Piece next{0, 0, first / row / rows / planes, {first / row / rows % planes, first / row % rows, first % row}};
  while (next.column < count) {
    next.count = std::min(count - next.column, row - next.position[2]);
    visit(next);
    next.column += next.count;
    next.position[2] = 0;
    if (++next.position[1] < rows) continue;
    next.position[1] = 0;
    if (++next.position[0] < planes) continue;
    next.position[0] = 0;
    ++next.image;
  }
}

template <typename T>
class Patches {
 public:
  Patches(const Gather& gather, const std::byte* source, int64_t group)
      : gather_(gather), source_(source + (gather.source.first + group * gather.source.group) * kBytes) {}

  // Writes the rows [begin, end) of some columns: columns side by side, and rows so many elements from one another.
  void Pack(int64_t first, int64_t columns, int64_t begin, int64_t end, int64_t pitch, float* to) const {
    const int64_t taps = gather_.taps();
    // Of each tap, the rows of all channels.
    for (int64_t row = begin; row < std::min(end, begin + taps); ++row) {
      const int64_t channels = CeilOf(end - row, taps);
      const std::byte* const from = source_ + row / taps * gather_.source.channel * kBytes;
      float* const rows = to + (row - begin) * pitch;
      const auto at = PlaceOf(row % taps);
      ForPieces(gather_, first, columns, false,
                [&](const Piece& piece) { PackPiece(piece, at, from, channels, pitch * taps, rows + piece.column); });
    }
  }

 private:
  using Place = std::array<int64_t, kConvolvedAxes>;

  static constexpr int64_t kBytes = sizeof(T);

  // What the first position reads with a tap.
  [[nodiscard]] Place PlaceOf(int64_t tap) const {
    Place place;
    for (size_t i = kConvolvedAxes; i-- > 0;) {
      const GatherAxis& axis = gather_.axes[i];
      place[i] = axis.first + tap % axis.taps * axis.spacing;
      tap /= axis.taps;
    }
    return place;
  }

  void PackPiece(const Piece& piece, const Place& at, const std::byte* from, int64_t channels, int64_t pitch,
                 float* to) const {
    int64_t offset = piece.image * gather_.source.outer;
    bool is_inside = true;
    for (size_t i = 0; i + 1 < kConvolvedAxes; ++i) {
      const GatherAxis& axis = gather_.axes[i];
      const int64_t place = piece.position[i] * axis.step + at[i];
      is_inside = is_inside && 0 <= place && place < axis.source;
      offset += place * axis.source_stride;
    }
    const GatherAxis& axis = gather_.axes[kConvolvedAxes - 1];
    const int64_t place = piece.position[kConvolvedAxes - 1] * axis.step + at[kConvolvedAxes - 1];
    const int64_t begin = place >= 0 ? 0 : std::min(piece.count, Steps(-place, axis.step));
    const int64_t end =
        is_inside && place < axis.source ? std::min(piece.count, Steps(axis.source - place, axis.step)) : 0;
    if (begin >= end) return Clear(0, piece.count, channels, pitch, to);
    Clear(0, begin, channels, pitch, to);
    offset += (place + begin * axis.step) * axis.source_stride;
    MatrixLines<T>(from + offset * kBytes, axis.step * axis.source_stride, gather_.source.channel)
        .PackLines(0, end - begin, 0, channels, pitch, to + begin);
    Clear(end, piece.count, channels, pitch, to);
  }

  // The steps to go so far, or farther.
  [[nodiscard]] static int64_t Steps(int64_t way, int64_t step) { return step == 1 ? way : (way - 1) / step + 1; }

  static void Clear(int64_t begin, int64_t end, int64_t channels, int64_t pitch, float* to) {
    if (begin == end) return;
    for (int64_t i = 0; i < channels; ++i) std::fill(to + i * pitch + begin, to + i * pitch + end, 0.0F);
  }

  const Gather& gather_;
  const std::byte* const source_;
};

}  // namespace
}  // namespace acl_host
