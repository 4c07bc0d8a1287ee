#include "plan/tiles.h"

namespace acl_host {
namespace {

// The scratch of all threads: so many bytes, and this part of the tensors' bytes.
constexpr int64_t kFreeBytes = int64_t{2} << 20;
constexpr int64_t kPartOfTensors = 8;

}  // namespace

Tile Tiles::First(int64_t begin, int64_t end) const {
  const int64_t column = begin / rows;
  const int64_t top = begin % rows;
  const int64_t left = column % per_row() * tile_columns;
  return {column / per_row(), top, std::min(rows, top + end - begin), left, std::min(left + tile_columns, columns)};
}

int64_t MostPieces(const Tiles& tiles, const TileWork& work) {
  const int64_t bytes = kFreeBytes + work.elements / kPartOfTensors * work.element_bytes;
  return std::clamp<int64_t>(bytes / std::max<int64_t>(work.scratch_bytes, 1), 1, tiles.count());
}

int64_t GrainOf(const Tiles& tiles, const TileWork& work) {
  const int64_t count = tiles.count();
  const double of_tile = std::min(work.operations / static_cast<double>(count), 1e9);
  const int64_t most = std::max(work.elements / count, static_cast<int64_t>(of_tile));
  return std::max(Grain(most + 1), (count - 1) / MostPieces(tiles, work) + 1);
}

}  // namespace acl_host
