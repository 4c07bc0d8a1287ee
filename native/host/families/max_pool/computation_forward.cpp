// Max pooling, row by row of windows. Each row depends only on its place, so the result depends neither on the tiles
// nor on the number of threads.
#include <algorithm>
#include <cstring>

#include "families/max_pool/forward.h"
#include "families/max_pool/maxima.h"
#include "plan/tiles.h"
#include "tensors/elements.h"
#include "tensors/rows.h"

namespace acl_host {
namespace {

constexpr int64_t kMaskWordBytes = sizeof(uint16_t);

// Writes positions as integers, or as the INT32 prefix of a mask: of some rows that are side by side in memory.
template <typename T>
class WithPositions {
 public:
  WithPositions(const Maxima& maxima, const KernelArguments& arguments)
      : maxima_(maxima), arguments_(arguments), rows_(maxima, arguments.inputs[0]) {}

  void SetTile(const Tile& tile) { rows_.SetColumns(tile.left, tile.right); }

  int64_t MakeRows(const Tile& tile, int64_t row, int64_t first) {
    const bool is_whole = tile.width() == maxima_.pool.output.width;
    const int64_t rows = is_whole ? std::min(MaximaRows<T>::kRowsAtATime, tile.bottom - row) : 1;
    for (int64_t i = 0; i < rows; ++i) rows_.Make(tile.plane, row + i, i);
    const int64_t count = rows * rows_.count();
    RoundRow<T>(rows_.best(), arguments_.outputs[0] + first * int64_t{sizeof(T)}, count);
    std::byte* const to =
        arguments_.outputs[1] + first * static_cast<int64_t>(aclDataTypeSize(maxima_.pool.index_type));
    if (maxima_.pool.index_type == ACL_INT32) {
      std::memcpy(to, rows_.positions(), static_cast<size_t>(count) * sizeof(int32_t));
    } else {
      for (int64_t i = 0; i < count; ++i) StoreElement(to, i, int64_t{rows_.positions()[i]});
    }
    return rows;
  }

 private:
  const Maxima& maxima_;
  const KernelArguments& arguments_;
  MaximaRows<T> rows_;
};

// Writes a mask of UINT16 words: see families/max_pool/mask.h. A plane of a tile has the channels of a word.
template <typename T>
class WithBits {
 public:
  WithBits(const Maxima& maxima, const KernelArguments& arguments)
      : maxima_(maxima), arguments_(arguments), rows_(maxima, arguments.inputs[0]) {}

  void SetTile(const Tile& tile) { rows_.SetColumns(tile.left, tile.right); }

  int64_t MakeRows(const Tile& tile, int64_t row, int64_t) {
    const MaxPool& pool = maxima_.pool;
    const int64_t groups = MaskChannelGroups(pool);
    const int64_t batch = tile.plane / groups;
    const int64_t first = tile.plane % groups * kMaskChannels;
    const int64_t cells = pool.kernel.height * pool.kernel.width;
    const int64_t at = row * pool.output.width + tile.left;
    std::byte* const words = arguments_.outputs[1] + tile.plane * cells * MaskWordsPerCell(pool) * kMaskWordBytes;
    Clear(words, cells, at, tile.width());
    // Behind the last position, words of zeros fill up the last groups of positions.
    const int64_t positions = pool.output.height * pool.output.width;
    if (at + tile.width() == positions) Clear(words, cells, positions, MaskWordsPerCell(pool) - positions);
    for (int64_t channel = first; channel < std::min(pool.channels, first + kMaskChannels); ++channel) {
      const int64_t plane = batch * pool.channels + channel;
      rows_.Make(plane, row, 0);
      RoundRow<T>(rows_.best(), arguments_.outputs[0] + (plane * positions + at) * int64_t{sizeof(T)}, tile.width());
      SetBits(words, tile.left, row, static_cast<uint16_t>(1U << (channel - first)));
    }
    return 1;
  }

 private:
  void Clear(std::byte* words, int64_t cells, int64_t at, int64_t count) const {
    for (int64_t cell = 0; cell < cells; ++cell) {
      std::memset(words + (cell * MaskWordsPerCell(maxima_.pool) + at) * kMaskWordBytes, 0,
                  static_cast<size_t>(count * kMaskWordBytes));
    }
  }

  // The bit of each window's own cell.
  void SetBits(std::byte* words, int64_t left, int64_t row, uint16_t bit) const {
    const MaxPool& pool = maxima_.pool;
    const int64_t top = row * pool.stride.height - pool.padding.height;
    for (int64_t i = 0; i < rows_.count(); ++i) {
      const int64_t position = rows_.positions()[i];
      const int64_t x = (left + i) * pool.stride.width - pool.padding.width;
      const int64_t cell = (position / pool.input.width - top) * pool.kernel.width + position % pool.input.width - x;
      const int64_t word = cell * MaskWordsPerCell(pool) + row * pool.output.width + left + i;
      StoreElement(words, word, static_cast<uint16_t>(LoadElement<uint16_t>(words, word) | bit));
    }
  }

  const Maxima& maxima_;
  const KernelArguments& arguments_;
  MaximaRows<T> rows_;
};

template <typename T>
void Make(const Maxima& maxima, const KernelArguments& arguments) {
  const MaxPool& pool = maxima.pool;
  const bool has_bits = pool.index_type == ACL_UINT16;
  const int64_t planes = has_bits ? pool.batches * MaskChannelGroups(pool) : pool.planes();
  const Tiles tiles{planes, pool.output.height, pool.output.width, MaximaRows<T>::Windows(maxima)};
  const int64_t windows = pool.output.height * pool.output.width;
  const double comparisons = static_cast<double>(pool.planes()) * static_cast<double>(windows) *
                             static_cast<double>(maxima.cells.height) * static_cast<double>(maxima.cells.width);
  // A few comparisons take as long as to read or write an element.
  const TileWork work{pool.planes() * (pool.input.height * pool.input.width + windows), sizeof(T),
                      MaximaRows<T>::ScratchBytes(maxima), comparisons / 8};
  if (has_bits) {
    ForTiles(arguments.pool, tiles, work, [&] { return WithBits<T>(maxima, arguments); });
  } else {
    ForTiles(arguments.pool, tiles, work, [&] { return WithPositions<T>(maxima, arguments); });
  }
}

}  // namespace

template <>
void MaxPoolForward<VECTOR_LEVEL>::Run(const Maxima& maxima, const KernelArguments& arguments) {
  VisitFloatType(maxima.type, [&](auto tag) { Make<typename decltype(tag)::Type>(maxima, arguments); });
}

}  // namespace acl_host
