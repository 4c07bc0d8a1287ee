#include "families/pad/forward.h"

#include <algorithm>
#include <cstring>

#include "plan/tiles.h"
#include "tensors/elements.h"

namespace acl_host {
namespace {

// Cells of a tile: rows that are longer are divided among threads.
constexpr int64_t kMostColumns = 65536;

// Copies the padded cells of one thread's tiles.
template <typename T>
class PaddedRows {
 public:
  PaddedRows(const Pad& pad, const KernelArguments& arguments)
      : pad_(pad), self_(arguments.inputs[0]), out_(arguments.outputs[0]) {}

  // Divides the tile's columns: those before self's, those of self, and those behind them.
  void SetTile(const Tile& tile) {
    before_ = std::clamp(pad_.columns.before, tile.left, tile.right);
    behind_ = std::clamp(pad_.columns.before + pad_.columns.size, before_, tile.right);
    is_whole_ = before_ == tile.left && behind_ == tile.right && tile.width() == pad_.columns.size;
  }

  // Copies all rows at once that follow one another in self, too, or one.
  int64_t MakeRows(const Tile& tile, int64_t y, int64_t first_cell) const {
    std::byte* const out = out_ + (first_cell - tile.left) * kBytes;
    const int64_t row = CellOf(pad_.rows, y);
    const std::byte* const from = self_ + (tile.plane * pad_.rows.size + row) * pad_.columns.size * kBytes;
    int64_t rows = 1;
    if (is_whole_ && row == y - pad_.rows.before) rows = std::min(tile.bottom - y, pad_.rows.size - row);
    if (before_ < behind_) {
      const int64_t first = before_ - pad_.columns.before;
      const auto bytes = static_cast<size_t>((behind_ - before_) * rows) * sizeof(T);
      std::memcpy(out + before_ * kBytes, from + first * kBytes, bytes);
    }
    Fill(from, tile.left, before_, out);
    Fill(from, behind_, tile.right, out);
    return rows;
  }

 private:
  static constexpr auto kBytes = int64_t{sizeof(T)};

  // The cell that a padded cell is a copy of. Reflection does not reach the other border.
  [[nodiscard]] int64_t CellOf(const PaddedAxis& axis, int64_t padded) const {
    const int64_t place = padded - axis.before;
    if (pad_.rule == PadRule::kReplication) return std::clamp<int64_t>(place, 0, axis.size - 1);
    return place < 0 ? -place : place < axis.size ? place : 2 * (axis.size - 1) - place;
  }

  // Columns on one side of self's: all are copies of the border, or each is the copy of an earlier cell.
  void Fill(const std::byte* from, int64_t begin, int64_t end, std::byte* out) const {
    if (begin == end) return;
    const int64_t cell = CellOf(pad_.columns, begin);
    if (pad_.rule == PadRule::kReplication) {
      const T copied = LoadElement<T>(from, cell);
      for (int64_t x = begin; x < end; ++x) StoreElement(out, x, copied);
    } else {
      for (int64_t x = begin; x < end; ++x) StoreElement(out, x, LoadElement<T>(from, cell + begin - x));
    }
  }

  const Pad& pad_;
  const std::byte* const self_;
  std::byte* const out_;
  int64_t before_ = 0;
  int64_t behind_ = 0;
  bool is_whole_ = false;
};

}  // namespace

void PadPlanes(const Pad& pad, aclDataType type, const KernelArguments& arguments) {
  const Tiles tiles{pad.planes, pad.rows.padded, pad.columns.padded, kMostColumns};
  VisitElementSize(type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const TileWork work{tiles.planes * tiles.rows * tiles.columns, sizeof(T), 0};
    ForTiles(arguments.pool, tiles, work, [&] { return PaddedRows<T>(pad, arguments); });
  });
}

}  // namespace acl_host
