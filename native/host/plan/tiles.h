// Divides planes into tiles, so that a thread's scratch memory does not grow with the planes, and the loop over the
// tiles into so few pieces that the scratch of all threads together is little beside the tensors.
#pragma once

#include <algorithm>
#include <cstdint>

#include "device/thread_pool.h"

namespace acl_host {

// Rows [top, bottom) and columns [left, right) of a plane.
struct Tile {
  int64_t plane;
  int64_t top;
  int64_t bottom;
  int64_t left;
  int64_t right;

  [[nodiscard]] int64_t width() const { return right - left; }
};

struct Tiles {
  int64_t planes;
  int64_t rows;
  int64_t columns;
  int64_t tile_columns;  // the last tile of a row may have fewer

  [[nodiscard]] int64_t per_row() const { return (columns - 1) / tile_columns + 1; }
  // Rows of tiles: a piece of a loop has some that follow one another.
  [[nodiscard]] int64_t count() const { return planes * per_row() * rows; }
  // The number of a tile's first cell in a row, counted through all planes.
  [[nodiscard]] int64_t FirstCell(const Tile& tile, int64_t row) const {
    return (tile.plane * rows + row) * columns + tile.left;
  }
  // Of the rows of tiles [begin, end), the first ones that are one tile.
  [[nodiscard]] Tile First(int64_t begin, int64_t end) const;
};

// What a loop over the tiles takes.
struct TileWork {
  int64_t elements;       // that it reads and writes in all
  int64_t element_bytes;  // of each
  int64_t scratch_bytes;  // of each thread
  double operations = 0;  // in all, if they are more than the elements
};

// The most pieces of the loop, so that the scratch of all threads is little beside the tensors.
[[nodiscard]] int64_t MostPieces(const Tiles& tiles, const TileWork& work);

// The least rows of tiles of a piece.
[[nodiscard]] int64_t GrainOf(const Tiles& tiles, const TileWork& work);

// Makes a worker for each piece of the loop, and has it make the rows of the piece. SetTile(tile) begins a tile, and
// MakeRows(tile, row, first_cell) makes rows of it from this one on and returns how many.
template <typename MakeWorker>
void ForTiles(ThreadPool& pool, const Tiles& tiles, const TileWork& work, const MakeWorker& make_worker) {
  pool.ParallelFor(tiles.count(), GrainOf(tiles, work), [&](int64_t begin, int64_t end) {
    auto worker = make_worker();
    while (begin < end) {
      const Tile tile = tiles.First(begin, end);
      worker.SetTile(tile);
      for (int64_t row = tile.top; row < tile.bottom;) {
        row += worker.MakeRows(tile, row, tiles.FirstCell(tile, row));
      }
      begin += tile.bottom - tile.top;
    }
  });
}

}  // namespace acl_host
