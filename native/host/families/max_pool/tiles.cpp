#include <algorithm>

#include "families/max_pool/computation.h"
#include "tensors/sums.h"

namespace acl_host {

Pair TileSize(const MaxPool& pool) {
  constexpr int64_t kCells = 32768;
  constexpr int64_t kLeastRows = 16;
  constexpr int64_t kSide = 181;  // of a square of so many cells
  const int64_t window_rows = std::min(pool.kernel.height, kSide);
  const int64_t rows = std::max(kCells / pool.input.width, std::clamp(int64_t{4} * window_rows, kLeastRows, kSide));
  const int64_t height = std::min(rows, pool.input.height);
  return {height, std::min(kCells / height, pool.input.width)};
}

Tiles TilesOf(const MaxPool& pool, const Pair& tile) {
  return {pool.planes(), (pool.input.height - 1) / tile.height + 1, pool.input.width, tile.width};
}

int64_t MostWindowsOver(const MaxPool& pool) {
  const int64_t rows = std::min((pool.kernel.height - 1) / pool.stride.height + 1, pool.output.height);
  return rows * std::min((pool.kernel.width - 1) / pool.stride.width + 1, pool.output.width);
}

uint64_t TileBytes(const MaxPool& pool) {
  const Pair tile = TileSize(pool);
  uint64_t bytes = 0;
  VisitSumType<float>(MostWindowsOver(pool), [&](auto tag) { bytes = sizeof(typename decltype(tag)::Type); });
  return static_cast<uint64_t>(tile.height * tile.width + 1) * bytes;
}

TileWork WorkOf(const MaxPool& pool, int64_t element_bytes) {
  constexpr int64_t kBytesOfBlock = 65536;  // the tables of its windows
  const int64_t elements = pool.input.height * pool.input.width + pool.output.height * pool.output.width;
  return {pool.planes() * elements, element_bytes, static_cast<int64_t>(TileBytes(pool)) + kBytesOfBlock};
}

}  // namespace acl_host
