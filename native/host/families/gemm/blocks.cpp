// The division of products among threads.
#include <algorithm>

#include "families/gemm/computation.h"
#include "tensors/tensor.h"

namespace acl_host {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);
// Multiples of the rows and columns of every vector level's tiles.
constexpr int64_t kRowStep = 24;
constexpr int64_t kColumnStep = 96;
// Columns of a panel that are zeros, at most.
constexpr int64_t kMorePanelColumns = 16;

// Blocks of all threads together: their panels take 4 MiB, or with the sums of results of 16 bits no more than that.
constexpr int64_t kSharedLines = 2048;
constexpr int64_t kSharedColumnsOfHalves = 1024;
constexpr int64_t kSharedCellsOfHalves = int64_t{1} << 19;
// A thread's own block. Panels of few lines are packed by each thread, which is little beside the products.
constexpr double kOwnWork = 1 << 22;
constexpr int64_t kThinElements = int64_t{1} << 14;
constexpr double kThinWork = 1 << 20;
constexpr int64_t kThinLines = 2048;
constexpr int64_t kLeastThinLines = 144;
constexpr int64_t kThinPanel = int64_t{1} << 16;
// Slots, and parts, take this much and a quarter of the tensors.
constexpr int64_t kFreeBytes = int64_t{2} << 20;
// Few results of much depth are work for many threads.
constexpr int64_t kFewCells = int64_t{1} << 16;
constexpr int64_t kPartDepth = 1024;
constexpr int64_t kMostParts = 64;
constexpr int64_t kVectorTerms = 32768;
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

void CutDepth(int64_t depth, int64_t parts, ProductBlocks& blocks) {
  blocks.part_depth = RoundUp((depth - 1) / parts + 1, ProductBlocks::kDepth);
  blocks.parts = (depth - 1) / blocks.part_depth + 1;
}

// Parts have totals in float64.
void MakeVectorBlocks(int64_t batches, int64_t columns, int64_t depth, ProductBlocks& blocks) {
  blocks.is_vector = true;
  blocks.columns = std::min(columns, ProductBlocks::kVectorColumns);
  const double tasks = static_cast<double>(batches) * static_cast<double>((columns - 1) / blocks.columns + 1);
  const double terms = static_cast<double>(blocks.columns) * static_cast<double>(depth);
  const int64_t wanted = Bounded(static_cast<double>(kMostParts) / tasks);
  const int64_t parts = std::min({wanted, Bounded(terms / kVectorTerms), (depth - 1) / ProductBlocks::kDepth + 1});
  if (parts < 2) return;
  CutDepth(depth, parts, blocks);
  blocks.sum_bytes = static_cast<int64_t>(tasks) * blocks.parts * blocks.columns * int64_t{sizeof(double)};
}

// How many of the longer lines a thread packs at a time, if there are few of the shorter ones.
int64_t ThinLines(int64_t lines, int64_t others, int64_t part_depth, int64_t step) {
  const double work = static_cast<double>(others) * static_cast<double>(part_depth);
  const int64_t most = std::min(kThinLines, kThinPanel / std::min(part_depth, ProductBlocks::kDepth));
  return std::min(lines, RoundUp(std::clamp(Bounded(kThinWork / work), kLeastThinLines, most), step));
}

void ChooseLines(int64_t rows, int64_t columns, ProductBlocks& blocks) {
  const int64_t most_of_thin = kThinElements / std::min(blocks.part_depth, ProductBlocks::kDepth);
  if (columns <= most_of_thin) {
    blocks.rows = ThinLines(rows, columns, blocks.part_depth, kRowStep);
  } else if (rows <= most_of_thin) {
    blocks.columns = ThinLines(columns, rows, blocks.part_depth, kColumnStep);
  } else {
    blocks.is_shared = true;
  }
}

void MeasureSlot(bool has_sums, ProductBlocks& blocks) {
  const int64_t depth = std::min(blocks.part_depth, ProductBlocks::kDepth);
  const int64_t lines = blocks.rows + blocks.columns + kMorePanelColumns;
  blocks.panel_bytes = RoundUp(lines * depth * kFloatBytes, kSlotAlignment);
  blocks.sum_bytes = has_sums ? RoundUp(blocks.rows * blocks.columns * kFloatBytes, kSlotAlignment) : 0;
}

}  // namespace

ProductBlocks BlocksOf(const MatrixProduct& product, int64_t threads) {
  const int64_t batches = ElementCount(product.batches);
  const int64_t cells = batches * product.rows * product.columns;  // those of out, which is addressable
  ProductBlocks blocks{product.depth, 1, false, false, product.rows, product.columns, 1, 0, 0};
  if (product.depth == 0) return blocks;
  if (IsVector(product)) {
    MakeVectorBlocks(batches, product.columns, product.depth, blocks);
    return blocks;
  }
  if (cells <= kFewCells && product.depth >= 2 * kPartDepth) {
    const int64_t most = std::min(kMostParts, kFreeBytes / (cells * kFloatBytes));
    CutDepth(product.depth, std::min(most, product.depth / kPartDepth), blocks);
  }
  const bool has_sums = blocks.parts == 1 && product.out != ACL_FLOAT;
  const double work =
      static_cast<double>(product.rows) * static_cast<double>(product.columns) * static_cast<double>(blocks.part_depth);
  if (work > kOwnWork) ChooseLines(product.rows, product.columns, blocks);
  if (!blocks.is_shared) {
    MeasureSlot(has_sums, blocks);
    // Few lines in the depth may have many results.
    blocks.is_shared = blocks.slot_bytes() > kFreeBytes;
  }
  if (blocks.is_shared) {
    blocks.columns = std::min(product.columns, has_sums ? kSharedColumnsOfHalves : kSharedLines);
    const int64_t most = has_sums ? std::min(kSharedLines, kSharedCellsOfHalves / blocks.columns) : kSharedLines;
    blocks.rows = std::min(product.rows, most);
    MeasureSlot(has_sums, blocks);
    return blocks;
  }
  const int64_t of_columns = (product.columns - 1) / blocks.columns + 1;
  const int64_t count = batches * blocks.parts * ((product.rows - 1) / blocks.rows + 1) * of_columns;
  const int64_t budget = kFreeBytes + TensorBytes(product, batches) / 4;
  blocks.slots = std::clamp<int64_t>(budget / blocks.slot_bytes(), 1, std::min(threads, count));
  return blocks;
}

}  // namespace acl_host
