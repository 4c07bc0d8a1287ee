// How the rows are divided: the sums over them must not depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "families/layer_norm/computation.h"

namespace acl_host {

// The elements of a tile: a few whole rows, or a part of a long one.
constexpr int64_t kTileElements = kRowPart;

// Rows of a tile that are added to the sums of the columns at once, if it has several.
constexpr int64_t kRowsTogether = 4;

// Chunks of rows have sums over the columns of their own, which are added up at the end. Their memory is little beside
// the rows.
inline int64_t RowsOfChunk(const LayerNorm& norm) {
  constexpr int64_t kFewChunks = 32;
  constexpr int64_t kLeastRows = 32;
  constexpr int64_t kLeastElements = 65536;
  const int64_t most = kMostFloatAdditions * (norm.columns <= kTileElements / kRowsTogether ? kRowsTogether : 1);
  const int64_t wanted = std::max({kLeastRows, (norm.rows - 1) / kFewChunks + 1, kLeastElements / norm.columns});
  return std::min(wanted, most);
}

inline int64_t CountChunks(const LayerNorm& norm) { return (norm.rows - 1) / RowsOfChunk(norm) + 1; }

// The parts of a row.
inline int64_t CountParts(const LayerNorm& norm) { return (norm.columns - 1) / kTileElements + 1; }

// The scratch memory: two sums of each part of a long row, and two of each column of a chunk if there are several.
inline bool NeedsRowSums(const LayerNorm& norm) { return norm.grad_input && CountParts(norm) > 1; }
inline uint64_t RowSumsBytes(const LayerNorm& norm) {
  return static_cast<uint64_t>(norm.rows * CountParts(norm)) * 2 * sizeof(float);
}
inline bool NeedsColumnSums(const LayerNorm& norm) { return norm.sums_columns() && CountChunks(norm) > 1; }
inline uint64_t ColumnSumsBytes(const LayerNorm& norm) {
  return static_cast<uint64_t>(CountChunks(norm) * norm.columns) * 2 * sizeof(float);
}

}  // namespace acl_host
