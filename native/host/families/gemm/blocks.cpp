// The division of products among threads.
#include <algorithm>

#include "families/gemm/computation.h"
#include "tensors/sums.h"
#include "tensors/tensor.h"

namespace acl_host {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);
// Multiples of the rows and columns of every vector level's tiles.
constexpr int64_t kRowStep = 24;
constexpr int64_t kColumnStep = 96;
// Columns of a panel that are zeros, at most.
constexpr int64_t kMorePanelColumns = 16;

// Blocks of all threads together: their panels take 4 MiB, or with sums that are not in the results no more than that.
constexpr int64_t kSharedLines = 2048;
constexpr int64_t kSharedColumnsOfSums = 1024;
constexpr int64_t kSharedCellsOfSums = int64_t{1} << 19;
// A thread's own block. Panels of few lines are packed by each thread, which is little beside the products.
constexpr double kOwnWork = 1 << 22;
constexpr int64_t kThinElements = int64_t{1} << 14;
constexpr double kThinWork = 1 << 20;
constexpr int64_t kThinLines = 2048;
constexpr int64_t kLeastThinLines = 144;
constexpr int64_t kThinPanel = int64_t{1} << 16;
// Slots take this much and a quarter of the tensors.
constexpr int64_t kFreeBytes = int64_t{2} << 20;
// Few results of much depth are work for many threads.
constexpr int64_t kFewCells = int64_t{1} << 16;
constexpr int64_t kPartDepth = 1024;
constexpr int64_t kMostParts = 64;
// More sums of kDepthOfSum would be too many to add in float32.
constexpr int64_t kMostPartDepth = kDepthOfSum * kMostFloatAdditions;
constexpr int64_t kPartBytes = int64_t{2} << 20;
// A vector of fewer elements is multiplied as a matrix.
constexpr int64_t kLeastVectorDepth = 32;

int64_t RoundUp(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// A number that is compared with bounds far below the largest.
int64_t Bounded(double value) { return static_cast<int64_t>(std::min(value, 4e18)); }

int64_t TensorBytes(const MatrixProduct& product, int64_t batches) {
  const double cells = static_cast<double>(product.rows) * static_cast<double>(product.columns) +
                       static_cast<double>(product.rows + product.columns) * static_cast<double>(product.depth);
  return Bounded(cells * static_cast<double>(batches) * static_cast<double>(aclDataTypeSize(product.left.type)));
}

// A matrix that is read in place has rows or columns whose elements are side by side.
bool IsVector(const MatrixProduct& product) {
  if (product.rows != 1) return false;
  return product.right.column_stride == 1 || (product.right.row_stride == 1 && product.depth >= kLeastVectorDepth);
}

// How many of the longer lines a thread packs at a time, if there are few of the shorter ones.
int64_t ThinLines(int64_t lines, int64_t others, int64_t part_depth, int64_t step) {
  const double work = static_cast<double>(others) * static_cast<double>(part_depth);
  const int64_t most = std::min(kThinLines, kThinPanel / std::min(part_depth, kDepthOfSum));
  return std::min(lines, RoundUp(std::clamp(Bounded(kThinWork / work), kLeastThinLines, most), step));
}

void ChooseLines(const MatrixProduct& product, ProductBlocks& blocks) {
  const int64_t most_of_thin = kThinElements / std::min(product.part_depth, kDepthOfSum);
  if (blocks.columns <= most_of_thin) {
    blocks.rows = ThinLines(blocks.rows, blocks.columns, product.part_depth, kRowStep);
  } else if (blocks.rows <= most_of_thin) {
    blocks.columns = ThinLines(blocks.columns, blocks.rows, product.part_depth, kColumnStep);
  } else {
    blocks.is_shared = true;
  }
}

void MeasureSlot(const MatrixProduct& product, bool has_sums, ProductBlocks& blocks) {
  const int64_t depth = std::min(product.part_depth, kDepthOfSum);
  const int64_t lines = blocks.rows + blocks.columns + kMorePanelColumns;
  blocks.panel_bytes = RoundUp(lines * depth * kFloatBytes, kSlotAlignment);
  blocks.sum_bytes = has_sums ? RoundUp(blocks.rows * blocks.columns * kFloatBytes, kSlotAlignment) : 0;
}

}  // namespace

int64_t PartDepthOf(int64_t rows, int64_t columns, int64_t depth) {
  if (depth == 0) return depth;
  const int64_t cells = std::max<int64_t>(Bounded(static_cast<double>(rows) * static_cast<double>(columns)), 1);
  int64_t parts = (depth - 1) / kMostPartDepth + 1;
  if (cells <= kFewCells) {
    parts = std::max(parts, std::min({kMostParts, kPartBytes / (cells * kFloatBytes), depth / kPartDepth}));
  }
  return parts == 1 ? depth : RoundUp((depth - 1) / parts + 1, kDepthOfSum);
}

ProductBlocks BlocksOf(const MatrixProduct& product, int64_t threads) {
  const int64_t batches = ElementCount(product.batches);
  ProductBlocks blocks{IsVector(product), false, product.rows, product.columns, 1, 0, 0, batches, product.rows};
  if (product.depth == 0) return blocks;
  const int64_t parts = product.parts();
  if (parts > 1) {
    const int64_t row_bytes = parts * product.columns * kFloatBytes;
    blocks.part_rows = std::clamp<int64_t>(kPartBytes / row_bytes, 1, product.rows);
    blocks.part_matrices = std::clamp<int64_t>(kPartBytes / row_bytes / product.rows, 1, batches);
  }
  if (blocks.is_vector) {
    blocks.columns = std::min(product.columns, ProductBlocks::kVectorColumns);
    return blocks;
  }
  // What is added may be what the results overwrite.
  const bool has_sums = parts == 1 && (product.out != ACL_FLOAT || product.added);
  const double work = static_cast<double>(blocks.part_rows) * static_cast<double>(product.columns) *
                      static_cast<double>(product.part_depth);
  blocks.rows = blocks.part_rows;
  if (work > kOwnWork) ChooseLines(product, blocks);
  if (!blocks.is_shared) {
    MeasureSlot(product, has_sums, blocks);
    // Few lines in the depth may have many results.
    blocks.is_shared = blocks.slot_bytes() > kFreeBytes;
  }
  if (blocks.is_shared) {
    blocks.columns = std::min(product.columns, has_sums ? kSharedColumnsOfSums : kSharedLines);
    const int64_t most = has_sums ? std::min(kSharedLines, kSharedCellsOfSums / blocks.columns) : kSharedLines;
    blocks.rows = std::min(blocks.part_rows, most);
    MeasureSlot(product, has_sums, blocks);
    return blocks;
  }
  const int64_t of_columns = (product.columns - 1) / blocks.columns + 1;
  const int64_t count = batches * parts * ((product.rows - 1) / blocks.rows + 1) * of_columns;
  const int64_t budget = kFreeBytes + TensorBytes(product, batches) / 4;
  blocks.slots = std::clamp<int64_t>(budget / blocks.slot_bytes(), 1, std::min(threads, count));
  return blocks;
}

}  // namespace acl_host
